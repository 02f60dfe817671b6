import type { ChatJob } from '../../domain/chat-job.ts'
import type { Envelope } from '../../domain/completion.ts'
import type { Offer } from '../../domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../runtime/json-object.ts'
import { withToolCallIds } from './tool-call-ids.ts'

/** Appended to the base URL of an endpoint. */
export const CHAT_COMPLETIONS_PATH = '/chat/completions'

/** The identity of an answer. It contains the request id, so that an answer leads to its usage row. */
export function envelopeOf(request: { requestId: string; startedAtEpochMs: number }, model: string): Envelope {
  // `join` makes one flat string. A template literal makes a rope, for which JSON.stringify takes its slow path for the whole answer.
  const id = ['chatcmpl-', request.requestId].join('')
  return { id, created: Math.floor(request.startedAtEpochMs / 1000), model }
}

/**
 * The body for one upstream: the job's fields in this upstream's dialect. The gateway's own fields are not among them,
 * because parsing took them out. `maxTokens` is what the ticket allows, per choice. Usage is always asked for.
 */
export function upstreamRequestBody(job: ChatJob, offer: Offer, maxTokens: number): string {
  const { dialect } = offer.endpoint
  const body: JsonObject = { model: offer.upstreamModel, ...job.forward, [dialect.maxTokensField]: maxTokens }
  // Also where it is false: there are servers that stream unless told not to (unsloth issue 5047, RAGFlow issue 15442, minimind pull request 851).
  body.stream = job.stream
  if (job.stream && dialect.streamOptions) body.stream_options = { include_usage: true }
  if (dialect.developerRole) body.messages = developerAsSystem(body.messages)
  body.messages = withToolCallIds(body.messages, dialect.toolCallIds)
  const ofMessages: string[] = []
  for (const field of dialect.dropFields) {
    if (field.startsWith(OF_MESSAGES)) ofMessages.push(field.slice(OF_MESSAGES.length))
    else delete body[field]
  }
  if (ofMessages.length > 0) body.messages = withoutFields(body.messages, ofMessages)
  return JSON.stringify(body)
}

/** How a dialect names the fields of each message, and in a message those of each tool call. */
const OF_MESSAGES = 'messages[].'
const OF_TOOL_CALLS = 'tool_calls[].'

function withoutFields(items: unknown, fields: readonly string[]): unknown {
  if (!Array.isArray(items)) return items
  const ofToolCalls = fields.flatMap(field =>
    field.startsWith(OF_TOOL_CALLS) ? [field.slice(OF_TOOL_CALLS.length)] : [],
  )
  return items.map(item => {
    if (!isJsonObject(item)) return item
    const kept = { ...item }
    for (const field of fields) delete kept[field]
    if (ofToolCalls.length > 0 && 'tool_calls' in kept) kept.tool_calls = withoutFields(kept.tool_calls, ofToolCalls)
    return kept
  })
}

function developerAsSystem(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages
  return messages.map(message =>
    isJsonObject(message) && message.role === 'developer' ? { ...message, role: 'system' } : message,
  )
}
