import type { Attributes } from '@opentelemetry/api'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import { usd } from '../../base/domain/money.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import type { RequestContent } from '../../base/domain/request-content.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import { genAi, own, server } from './attributes.ts'
import { choiceReason } from './choice-reason.ts'

/** Adds the numbers of a request that the conventions name. Nothing that a person wrote. */
export function addRequest(to: Attributes, { stream, maxTokens, choices, forward }: ChatJob): void {
  if (stream) to[genAi.requestStream] = true
  if (maxTokens !== null) to[genAi.requestMaxTokens] = maxTokens
  if (choices > 1) to[genAi.requestChoices] = choices
  for (const [field, name] of numberAttributes) {
    const value = forward[field]
    if (typeof value === 'number') to[name] = value
  }
}

const numberAttributes = [
  ['temperature', genAi.requestTemperature],
  ['top_p', genAi.requestTopP],
  ['top_k', genAi.requestTopK],
  ['seed', genAi.requestSeed],
  ['frequency_penalty', genAi.requestFrequencyPenalty],
  ['presence_penalty', genAi.requestPresencePenalty],
] as const

/** Adds what is known of a request once it is settled, for its own span. */
export function addSettled(to: Attributes, settlement: Settlement, { offer, billedParts }: Receipt): void {
  const { hosterId, endpointId, label, upstreamCostNanos, writeoffNanos, provider } = settlement
  to[own.outcome] = settlement.outcome
  to[own.modelServed] = settlement.modelId
  to[own.choice] = choiceReason(settlement)
  to[own.candidates] = settlement.routing?.ranked.length || 1
  to[own.attempts] = settlement.attempts.length
  if (label !== null) to[own.label] = label
  if (offer !== null) to[own.offer] = offer.offerId
  if (endpointId !== null) to[own.endpoint] = endpointId
  if (hosterId !== null) to[own.hoster] = hosterId
  if (provider !== 'none') to[own.providerKind] = provider
  to[own.held] = usd(settlement.holdNanos)
  to[own.cost] = usd(settlement.costNanos)
  if (upstreamCostNanos !== null) to[own.upstreamCost] = usd(upstreamCostNanos)
  if (writeoffNanos > 0n) to[own.writtenOff] = usd(writeoffNanos)
  to[own.inputTokens] = settlement.inputTokens
  to[own.outputTokens] = settlement.outputTokens
  to[own.cacheReadTokens] = billedParts?.cacheReadTokens ?? 0
  to[own.cacheWriteTokens] = billedParts === null ? 0 : cacheWriteTokensOf(billedParts)
  to[own.reasoningTokens] = billedParts?.reasoningTokens ?? 0
}

/** Adds what the conventions want of an answer. Tokens are those that are billed. */
export function addAnswer(
  to: Attributes,
  settlement: Settlement,
  { billedParts }: Receipt,
  { stream }: Pick<ChatJob, 'stream'>,
): void {
  const { finishReason, firstTokenMs } = settlement
  to[genAi.responseModel] = settlement.modelId
  to[genAi.responseId] = settlement.requestId
  if (finishReason !== null) to[genAi.finishReasons] = [finishReason]
  if (stream && firstTokenMs !== null) to[genAi.timeToFirstChunk] = firstTokenMs / 1_000
  to[genAi.inputTokens] = settlement.inputTokens
  to[genAi.outputTokens] = settlement.outputTokens
  if (billedParts !== null) {
    to[genAi.cacheReadTokens] = billedParts.cacheReadTokens
    to[genAi.cacheWriteTokens] = cacheWriteTokensOf(billedParts)
    if (billedParts.reasoningTokens !== null) to[genAi.reasoningTokens] = billedParts.reasoningTokens
  }
  to[own.cost] = usd(settlement.costNanos)
}

function cacheWriteTokensOf({ cacheWriteTokens, cacheWriteLongTokens }: NonNullable<Receipt['billedParts']>): number {
  return cacheWriteTokens + cacheWriteLongTokens
}

/** Messages as the conventions write them, as JSON: backends read it, and attributes of spans have no objects yet. */
export function contentAttributes({ messages, answer }: RequestContent): Attributes {
  const written = ({ role, text }: RequestContent['messages'][number]) => ({
    role,
    parts: [{ type: 'text', content: text }],
  })
  return {
    [genAi.inputMessages]: JSON.stringify(messages.map(written)),
    [genAi.outputMessages]: JSON.stringify([written({ role: 'assistant', text: answer })]),
  }
}

/** The length of the texts in a span, in UTF-16 units. */
export function contentLength({ attributes }: { readonly attributes: Attributes }): number {
  const lengthOf = (value: unknown) => (typeof value === 'string' ? value.length : 0)
  return lengthOf(attributes[genAi.inputMessages]) + lengthOf(attributes[genAi.outputMessages])
}

const addresses = new WeakMap<Endpoint, Address | null>()

interface Address {
  readonly host: string
  readonly port: number
}

/** Adds where a server is. Agents are reached by no address. */
export function addAddress(to: Attributes, endpoint: Endpoint): void {
  let address = addresses.get(endpoint)
  if (address === undefined) {
    address = addressOf(endpoint)
    addresses.set(endpoint, address)
  }
  if (address === null) return
  to[server.address] = address.host
  to[server.port] = address.port
}

function addressOf({ transport, baseUrl }: Endpoint): Address | null {
  const url = transport === 'agent' ? null : URL.parse(baseUrl)
  if (url === null) return null
  return { host: url.hostname, port: Number(url.port || (url.protocol === 'http:' ? 80 : 443)) }
}
