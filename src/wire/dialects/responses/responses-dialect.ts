import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { ChatCompletion, Envelope } from '../../../base/domain/completion.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { completionToAnswer } from '../chat/chunk-decoder.ts'
import { chatJobOf } from '../chat/conversation-to-chat.ts'
import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import { usageParts } from '../chat/usage.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { ToolNames } from '../tool-names.ts'
import { ClientToolCalls, costField, TranslatedStream } from '../translated-stream.ts'
import type { CompactionSeal } from './compaction-seal.ts'
import { wholeResponse } from './response-resource.ts'
import { responseEventSchema, responseSchema } from './response-schema.ts'
import type { ResponseSettings } from './response-settings.ts'
import { responseUsage } from './response-usage.ts'
import { responsesErrorBody } from './responses-error-body.ts'
import { parseResponsesBody, readResponsesRequest, withOpenCompactions } from './responses-request.ts'
import { responsesRequestSchema } from './responses-request-schema.ts'
import { isCompleteResponse, ResponsesEncoder } from './responses-stream.ts'

const OPERATION_DESCRIPTION = `Generates an answer to a conversation in the form of OpenAI's Responses API. Limits, holds, receipts and routing are those of chat.

Nothing is stored: send the whole conversation in \`input\`. \`store: true\` is accepted and has no effect. \`previous_response_id\`, \`conversation\`, \`prompt\` and \`background: true\` are refused.

Tools run at the client: \`function\`, \`custom\`, \`namespace\`, \`tool_search\`, \`apply_patch\`, \`shell\` without a container, \`local_shell\` and \`computer\`. Tools that a server would run are left out, or refused if \`tool_choice\` demands one. Reasoning comes back in \`encrypted_content\`; send it again with the conversation.

**Streams.** With \`stream: true\`, the answer is a stream of server-sent events with a \`sequence_number\`. It ends with \`response.completed\`, \`response.incomplete\` or \`response.failed\`. An answer that failed is free unless the message says otherwise.`

/** What an answer needs to know of its request. */
interface ResponsesJob extends ChatJob {
  readonly settings: ResponseSettings
}

/** The dialect, and what only its WebSocket needs. */
export interface ResponsesDialect extends ClientDialect {
  /**
   * Reads a body that is parsed. Throws as `parseRequest`.
   *
   * @param previousResponseId the response that it continues, for the answer
   */
  readBody(body: JsonObject, previousResponseId: string | null): ChatJob
}

/**
 * OpenAI's Responses API, without stored answers.
 *
 * @param seal opens compacted conversations
 */
export function responsesDialectWith(rules: ExtraFieldRules, seal?: CompactionSeal): ResponsesDialect {
  const readBody = (body: JsonObject, previousResponseId: string | null): ResponsesJob => {
    const { settings, ...request } = readResponsesRequest(seal === undefined ? body : withOpenCompactions(body, seal))
    const job = { ...chatJobOf(request, rules), settings }
    if (previousResponseId === null) return job
    return {
      ...job,
      settings: { ...settings, fields: { ...settings.fields, previous_response_id: previousResponseId } },
    }
  }
  return { ...format, readBody, parseRequest: body => readBody(parseResponsesBody(body), null) }
}

const format: Omit<ClientDialect, 'parseRequest'> = {
  path: '/v1/responses',
  operation: {
    operationId: 'createResponse',
    tag: 'Chat',
    summary: 'Create a response',
    description: OPERATION_DESCRIPTION,
    body: responsesRequestSchema,
    answer: responseSchema,
    answerDescription:
      'The response. With `stream: true`, server-sent events, each with a `ResponseStreamEvent`. With `dry_run: true`, a quote.',
    chunk: responseEventSchema,
  },
  answer: {
    encode(answer, job) {
      // Omit loses the names of fields where a type has unknown ones too.
      const completion = answer as ChatCompletion
      const calls = new ClientToolCalls(namesOf(job))
      const events = completionToAnswer(completion).flatMap(event => calls.push(event))
      const { usage: _, ...response } = wholeResponse(responseEnvelope(completion), settingsOf(job), events)
      return JSON.stringify(response)
    },
    withUsage: (text, usage) => {
      const billed = { ...responseUsage(usageParts(usage)), ...costField(usage) }
      return `${text.slice(0, -1)},"usage":${JSON.stringify(billed)}}`
    },
  },
  stream: {
    ping: ': ping\n\n',
    encoder: (envelope, job, memory) => {
      const encoder = new ResponsesEncoder(responseEnvelope(envelope), settingsOf(job), memory)
      return new TranslatedStream(envelope, encoder, namesOf(job))
    },
    isComplete: isCompleteResponse,
  },
  errorBody: responsesErrorBody,
}

/** The job may have got routing fields of headers since it was parsed, but keeps its settings. */
function settingsOf(job: ChatJob): ResponseSettings {
  return (job as ResponsesJob).settings
}

function namesOf({ source }: ChatJob): ToolNames {
  return new ToolNames(source!.conversation())
}

function responseEnvelope({ id, created, model }: Envelope): Envelope {
  return { id: `resp_${id.replace(/^chatcmpl-/, '')}`, created, model }
}
