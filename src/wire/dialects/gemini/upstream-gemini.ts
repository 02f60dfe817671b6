import { type ChatJob, fitOf } from '../../../base/domain/chat-job.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { Conversation } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { eventReader } from '../event-normaliser.ts'
import { fitBody } from '../fit/fit-body.ts'
import { ToolNames } from '../tool-names.ts'
import { conversationFor, conversationOf, hasCustomTools } from '../translation/conversation-of.ts'
import type { AnswerReader, UpstreamTask } from '../upstream-task.ts'
import { geminiPath } from './gemini-path.ts'
import { GeminiDecoder, readGeminiAnswer } from './upstream-answer.ts'
import { geminiRequestBody } from './upstream-request.ts'

/** Google's `generateContent`. The model is part of the path. */
export const upstreamGemini: UpstreamTask = {
  path: geminiPath,
  requestBody: (job, offer, maxTokens) => {
    const conversation = conversationFor(job, offer)
    const body = geminiRequestBody(conversation, maxTokens)
    const asked = job.source?.dialect === 'gemini' ? withOwnSettings(body, job.source.body) : body
    const isJson = takesJsonWithTools.test(offer.upstreamModel) ? false : withoutJsonMode(asked, conversation)
    return JSON.stringify(
      fitBody(asked, job, offer, 'gemini', fit => {
        if (isJson) {
          fit.dropped.add('response_format')
          if (conversation.outputFormat?.kind === 'json_schema') fit.checkOutput(conversation.outputFormat.schema)
        }
        const { effort } = conversation.reasoning
        if (effort === 'none' || effort === 'xhigh' || effort === 'max') fit.changed.add('reasoning_effort')
      }),
    )
  },
  bounds: answerBounds,
  readData: null,
  reader,
}

/**
 * Earlier models refuse JSON together with functions: "Function calling with a response mime type ... is unsupported".
 */
const takesJsonWithTools = /(^|[^\w])gemini-(?:[3-9]|\d\d)/

/** Asks for JSON in words instead, where a body has functions too. Returns whether it had to. */
function withoutJsonMode(body: JsonObject, { outputFormat }: Conversation): boolean {
  const { tools, generationConfig: config, systemInstruction: system } = body
  if (tools === undefined || outputFormat === null || !isJsonObject(config)) return false
  const { responseMimeType: _, responseJsonSchema: schema, ...others } = config
  const wish = 'Unless you call a function, answer with JSON only.'
  const text = schema === undefined ? wish : `${wish} It must satisfy this JSON Schema: ${JSON.stringify(schema)}`
  const parts = isJsonObject(system) && Array.isArray(system.parts) ? system.parts : []
  body.generationConfig = others
  body.systemInstruction = { parts: [...parts, { text }] }
  return true
}

/** Only some models know levels and others only budgets, so a client's own setting is kept. */
function withOwnSettings(body: JsonObject, { thinkingConfig, enumSchema, computerUse }: JsonObject): JsonObject {
  const { generationConfig: config, tools } = body
  if (computerUse !== undefined) {
    const withComputer = { ...body, tools: [...(Array.isArray(tools) ? tools : []), { computerUse }] }
    return withOwnSettings(withComputer, { thinkingConfig, enumSchema })
  }
  if (enumSchema !== undefined) {
    const settings = {
      ...(isJsonObject(config) && config),
      responseMimeType: 'text/x.enum',
      responseSchema: enumSchema,
    }
    return withOwnSettings({ ...body, generationConfig: settings }, { thinkingConfig })
  }
  if (!isJsonObject(thinkingConfig) || !isJsonObject(config) || !isJsonObject(config.thinkingConfig)) return body
  const { thinkingLevel, thinkingBudget, includeThoughts } = thinkingConfig
  return {
    ...body,
    generationConfig: { ...config, thinkingConfig: { thinkingLevel, thinkingBudget, includeThoughts } },
  }
}

function reader(job: ChatJob, offer: Offer): AnswerReader {
  // Clients of other dialects than chat get their own names back from the encoder.
  const names = hasCustomTools(job) ? new ToolNames(conversationOf(job), fitOf(job, offer)?.names) : flatNames
  return eventReader({
    decoder: (envelope, delimitersMax) => new GeminiDecoder(names, idPrefix(envelope), delimitersMax),
    whole: (text, envelope, delimitersMax) => readGeminiAnswer(text, names, idPrefix(envelope), delimitersMax),
  })
}

const flatNames = new ToolNames({ tools: [] })

/** Gemini gives calls no ids. */
function idPrefix({ id }: Envelope): string {
  return `call_${id.slice(-12)}_`
}
