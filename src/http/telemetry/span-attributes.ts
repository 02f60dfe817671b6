import type { Attributes } from '@opentelemetry/api'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import { usd } from '../../base/domain/money.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import type { RequestContent } from '../../base/domain/request-content.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import { genAi, own, server } from './attributes.ts'
import { choiceReason } from './choice-reason.ts'

/** The numbers of a request that the conventions name. Nothing that a person wrote. */
export function requestAttributes({ stream, maxTokens, choices, forward }: ChatJob): Attributes {
  const attributes: Attributes = {}
  if (stream) attributes[genAi.requestStream] = true
  if (maxTokens !== null) attributes[genAi.requestMaxTokens] = maxTokens
  if (choices > 1) attributes[genAi.requestChoices] = choices
  for (const [field, name] of numberAttributes) {
    const value = forward[field]
    if (typeof value === 'number') attributes[name] = value
  }
  return attributes
}

const numberAttributes = [
  ['temperature', genAi.requestTemperature],
  ['top_p', genAi.requestTopP],
  ['top_k', genAi.requestTopK],
  ['seed', genAi.requestSeed],
  ['frequency_penalty', genAi.requestFrequencyPenalty],
  ['presence_penalty', genAi.requestPresencePenalty],
] as const

/** What is known of a request once it is settled, for its own span. */
export function settledAttributes(settlement: Settlement, { offer, billedParts }: Receipt): Attributes {
  const { hosterId, endpointId, label, upstreamCostNanos, provider } = settlement
  return {
    [own.outcome]: settlement.outcome,
    [own.modelServed]: settlement.modelId,
    [own.choice]: choiceReason(settlement),
    [own.candidates]: settlement.routing?.ranked.length || 1,
    [own.attempts]: settlement.attempts.length,
    ...(label !== null && { [own.label]: label }),
    ...(offer !== null && { [own.offer]: offer.offerId }),
    ...(endpointId !== null && { [own.endpoint]: endpointId }),
    ...(hosterId !== null && { [own.hoster]: hosterId }),
    ...(provider !== 'none' && { [own.providerKind]: provider }),
    [own.held]: usd(settlement.holdNanos),
    [own.cost]: usd(settlement.costNanos),
    ...(upstreamCostNanos !== null && { [own.upstreamCost]: usd(upstreamCostNanos) }),
    ...(settlement.writeoffNanos > 0n && { [own.writtenOff]: usd(settlement.writeoffNanos) }),
    [own.inputTokens]: settlement.inputTokens,
    [own.outputTokens]: settlement.outputTokens,
    [own.cacheReadTokens]: billedParts?.cacheReadTokens ?? 0,
    [own.cacheWriteTokens]: billedParts === null ? 0 : cacheWriteTokensOf(billedParts),
    [own.reasoningTokens]: billedParts?.reasoningTokens ?? 0,
  }
}

/** What the conventions want of an answer. Tokens are those that are billed. */
export function answerAttributes(settlement: Settlement, { billedParts }: Receipt, isStream: boolean): Attributes {
  const { finishReason, firstTokenMs } = settlement
  return {
    [genAi.responseModel]: settlement.modelId,
    [genAi.responseId]: settlement.requestId,
    ...(finishReason !== null && { [genAi.finishReasons]: [finishReason] }),
    ...(isStream && firstTokenMs !== null && { [genAi.timeToFirstChunk]: firstTokenMs / 1_000 }),
    [genAi.inputTokens]: settlement.inputTokens,
    [genAi.outputTokens]: settlement.outputTokens,
    ...(billedParts !== null && {
      [genAi.cacheReadTokens]: billedParts.cacheReadTokens,
      [genAi.cacheWriteTokens]: cacheWriteTokensOf(billedParts),
      ...(billedParts.reasoningTokens !== null && { [genAi.reasoningTokens]: billedParts.reasoningTokens }),
    }),
    [own.cost]: usd(settlement.costNanos),
  }
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

const addresses = new WeakMap<Endpoint, Attributes>()

/** Agents are reached by no address. */
export function addressOf(endpoint: Endpoint): Attributes {
  let address = addresses.get(endpoint)
  if (address === undefined) {
    const url = endpoint.transport === 'agent' ? null : URL.parse(endpoint.baseUrl)
    const port = url?.port || (url?.protocol === 'http:' ? 80 : 443)
    address = url === null ? {} : { [server.address]: url.hostname, [server.port]: Number(port) }
    addresses.set(endpoint, address)
  }
  return address
}
