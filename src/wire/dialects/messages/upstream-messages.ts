import { type ChatJob, fitOf } from '../../../base/domain/chat-job.ts'
import type { Conversation } from '../../../base/domain/conversation.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import { answerBounds } from '../../../base/domain/request-bounds.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { type Fit, fitBody } from '../fit/fit-body.ts'
import { ToolNames } from '../tool-names.ts'
import { conversationFor, conversationOf, hasCustomTools, rejectedFields } from '../translation/conversation-of.ts'
import type { UpstreamTask } from '../upstream-task.ts'
import { isVertex, vertexPath } from '../vertex-path.ts'
import { betaHeaders } from './anthropic-tools.ts'
import { conversationToMessages, type MessagesTarget } from './conversation-to-messages.ts'
import { forwardMessages } from './forward-messages.ts'
import { citedMessagesReader, createMessagesReader, messagesReader } from './messages-normaliser.ts'

/** Servers with Anthropic's API. */
export const upstreamMessages: UpstreamTask = {
  path: ({ upstreamModel, endpoint }, stream) =>
    isVertex(endpoint)
      ? vertexPath('anthropic', upstreamModel, stream ? 'streamRawPredict' : 'rawPredict')
      : '/messages',
  headers: ['anthropic-version: 2023-06-01'],
  requestBody: (job, offer, maxTokens) => {
    const body = requestBody(job, offer, maxTokens)
    return JSON.stringify(isVertex(offer.endpoint) ? vertexBody(body) : body)
  },
  bounds: answerBounds,
  readData: null,
  requestHeaders: ({ source }) => (source?.dialect === 'messages' ? betaHeaders(source.body.tools) : []),
  reader: (job, offer) => {
    if (job.source?.isNativeOnly) return citedMessagesReader
    if (!hasCustomTools(job)) return messagesReader
    return createMessagesReader(new ToolNames(conversationOf(job), fitOf(job, offer)?.names))
  },
}

function requestBody(job: ChatJob, offer: Offer, maxTokens: number): JsonObject {
  const target = messagesTarget(job, offer, maxTokens)
  if (job.source?.dialect !== 'messages') {
    const conversation = conversationFor(job, offer)
    const translated = conversationToMessages(conversation, target)
    return fitBody(translated, job, offer, 'messages', fit => noteSettings(fit, conversation, translated))
  }
  const isAnthropic = anthropicHosts.test(new URL(offer.endpoint.baseUrl).hostname)
  const body = forwardMessages(job.source.body, { ...target, isAnthropic })
  for (const field of unsentFields(body, offer)) delete body[field]
  const forwarded = { ...body, messages: (body.messages as JsonObject[]).map(withoutSystemRole) }
  return fitBody(forwarded, job, offer, 'messages')
}

/** Names the settings that Anthropic's models refuse together, or while they think, and those outside of its range. */
export function noteSettings(fit: Fit, { sampling, reasoning }: Conversation, body: JsonObject): void {
  const { temperature, topP, topK } = sampling
  for (const [field, value] of Object.entries({ temperature, top_p: topP, top_k: topK })) {
    if (value !== null && body[field] === undefined) fit.dropped.add(field)
  }
  if (temperature !== null && body.temperature !== undefined && body.temperature !== temperature) {
    fit.changed.add('temperature')
  }
  if (reasoning.effort === 'minimal') fit.changed.add('reasoning_effort')
  const { effort } = reasoning
  if (effort !== null && body.thinking === undefined && body.output_config === undefined) {
    fit.dropped.add('reasoning_effort')
  }
}

/** Vertex has the model in the path and the version in the body. */
function vertexBody({ model: _, ...body }: JsonObject): JsonObject {
  return { anthropic_version: 'vertex-2023-10-16', ...body }
}

/** Claude Code sends instructions between turns, which need the header of a beta. */
function withoutSystemRole(message: JsonObject): JsonObject {
  return message.role === 'system' ? { ...message, role: 'user' } : message
}

const anthropicHosts = /(^|[.])(anthropic[.]com|amazonaws[.]com|api[.]aws|googleapis[.]com|azure[.]com)$/
/**
 * The fields that a server gets from a client of the same dialect. Anthropic refuses others unless a header names their
 * beta, and no header of a client is sent.
 */
const forwardedFields: ReadonlySet<string> = new Set([
  ...['model', 'max_tokens', 'stream', 'messages', 'system', 'tools', 'tool_choice', 'metadata', 'output_config'],
  ...['stop_sequences', 'thinking', 'temperature', 'top_p', 'top_k', 'cache_control'],
])

/** Returns the fields of a body of this dialect that the server of an offer does not get. */
export function unsentFields(body: Readonly<Record<string, unknown>>, offer: Offer): string[] {
  const rejected = rejectedFields(offer)
  return Object.keys(body).filter(field => !forwardedFields.has(field) || rejected.has(field))
}

/** Returns what a body for the server of this offer depends on. */
export function messagesTarget(job: ChatJob, offer: Offer, maxTokens: number): MessagesTarget {
  const { upstreamModel, quirks } = offer
  return {
    model: upstreamModel,
    maxTokens,
    stream: job.stream,
    thinking: quirks?.thinking ?? 'adaptive',
    takesSampling: !rejectedFields(offer).has('temperature'),
    caches: pricedCaches(offer),
  }
}

/**
 * Returns the cache hints that the server of an offer gets. Writing to a cache costs more than reading the prompt, so
 * it must have a price.
 */
export function pricedCaches({ price: { terms } }: Offer): MessagesTarget['caches'] {
  if (terms === undefined) return 'none'
  return terms.sellsLongWrites ? 'long' : 'short'
}
