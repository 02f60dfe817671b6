import type { ChatJob } from '../domain/chat-job.ts'
import { isJsonObject, type JsonObject } from '../domain/json-object.ts'
import type { Offer } from '../domain/offer.ts'

/**
 * The body for one upstream: the job's fields in this upstream's dialect. The gateway's own fields are not among them,
 * because parsing took them out. `maxTokens` is what the ticket allows, per choice. Usage is always asked for.
 */
export function upstreamRequestBody(job: ChatJob, offer: Offer, maxTokens: number): string {
  const { dialect } = offer.endpoint
  const body: JsonObject = { model: offer.upstreamModel, ...job.forward, [dialect.maxTokensField]: maxTokens }
  if (job.stream) {
    body.stream = true
    if (dialect.streamOptions) body.stream_options = { include_usage: true }
  }
  if (dialect.developerRole) body.messages = developerAsSystem(body.messages)
  for (const field of dialect.dropFields) delete body[field]
  return JSON.stringify(body)
}

function developerAsSystem(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages
  return messages.map(message =>
    isJsonObject(message) && message.role === 'developer' ? { ...message, role: 'system' } : message,
  )
}
