import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { eventReader } from '../event-normaliser.ts'
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
    const body = geminiRequestBody(conversationFor(job, offer), maxTokens)
    return JSON.stringify(job.source?.dialect === 'gemini' ? withOwnThinking(body, job.source.body) : body)
  },
  bounds: answerBounds,
  readData: null,
  reader,
}

/** Only some models know levels and others only budgets, so a client's own setting is kept. */
function withOwnThinking(body: JsonObject, { thinkingConfig }: JsonObject): JsonObject {
  const { generationConfig: config } = body
  if (!isJsonObject(thinkingConfig) || !isJsonObject(config) || !isJsonObject(config.thinkingConfig)) return body
  const { thinkingLevel, thinkingBudget, includeThoughts } = thinkingConfig
  return {
    ...body,
    generationConfig: { ...config, thinkingConfig: { thinkingLevel, thinkingBudget, includeThoughts } },
  }
}

function reader(job: ChatJob): AnswerReader {
  // Clients of other dialects than chat get their own names back from the encoder.
  const names = hasCustomTools(job) ? new ToolNames(conversationOf(job)) : flatNames
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
