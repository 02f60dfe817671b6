import type { HosterOffer, Offer } from '../../../base/domain/offer.ts'
import type { AskOffer } from './ask-offer.ts'
import type { AuditDeps } from './audit-deps.ts'
import { drawFields } from './draw-manners.ts'
import { growReply } from './grow-prompt.ts'
import type { PromptStock } from './prompt-stock.ts'
import { type Message, maySend, replayTurns } from './replay.ts'
import type { SharedRequest } from './shared-requests.ts'

/** What an audit sends. */
export interface AuditText {
  readonly source: 'replay' | 'prompt'
  /** The customer that sent the request; null: a prompt of the gateway. */
  readonly customerId: string | null
  /** The body without `messages`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** See SharedRequest. */
  readonly identifiers: Readonly<Record<string, unknown>>
  /** Returns the messages that follow, or null at the end. `history` ends with an answer, or is empty. */
  readonly next: (history: readonly Message[]) => Promise<readonly Message[] | null>
}

/** The part of the grown prompts, and of their answers, after which the person goes on. */
const REPLY_PART = 0.3
const REPLIES_MAX = 3

/**
 * Draws a request of a customer that shares them. Without any, draws a prompt that the reference has written, seldom
 * where the hoster got such a request lately: it is never quite like what people write. Null: there is neither.
 */
export async function drawText(
  deps: AuditDeps,
  stock: PromptStock,
  offer: HosterOffer,
  reference: Offer,
  askReference: AskOffer,
): Promise<AuditText | null> {
  const { random } = deps
  const replay = await takeReplay(deps, [offer, reference], offer)
  if (replay !== undefined) return replayText(replay)
  // A customer that shares one request a day must not end all audits.
  if (deps.shared.hasTaken(offer.modelId, offer.endpoint.hosterId) && random() >= WRITTEN_PART) return null
  const ask = async (content: string) => {
    const body = { messages: [{ role: 'user', content }], temperature: 1, max_tokens: WRITTEN_TOKENS_MAX }
    return (await askReference(reference, body))?.text ?? null
  }
  const grown = await stock.take(deps, ask)
  if (grown === null) return null
  const replies = Array.from({ length: REPLIES_MAX }, () => random()).findIndex(drawn => drawn >= REPLY_PART)
  let left = replies === -1 ? REPLIES_MAX : replies
  return {
    source: 'prompt',
    customerId: null,
    fields: drawFields(deps),
    identifiers: {},
    async next(history) {
      if (history.length === 0) return grown
      const reply = left-- > 0 ? await growReply(history, ask) : null
      return reply === null ? null : [{ role: 'user', content: reply }]
    },
  }
}

const WRITTEN_TOKENS_MAX = 1_500
/**
 * Where a hoster got a shared request lately, but none may be sent now, so many audits send a prompt of the reference.
 */
const WRITTEN_PART = 0.1

const RELATED_MAX = 20

/**
 * Takes a request of a customer that has nothing to do with the hosters of these offers, that all of them may see, and
 * of a conversation that neither they nor hosters that are related to them were sent before.
 */
export async function takeReplay(
  deps: Pick<AuditDeps, 'relatedCustomers' | 'relatedHosters' | 'shared' | 'seen' | 'shares' | 'estimateNanos'>,
  offers: readonly Offer[],
  { modelId, endpoint }: HosterOffer,
): Promise<SharedRequest | undefined> {
  const { shared, seen, shares } = deps
  const conversations = shared.conversations(modelId)
  if (conversations.length === 0) return undefined
  // Hosters of one person compare what they got.
  const hosterIds = await deps.relatedHosters.withRelated([
    ...new Set(offers.flatMap(offer => offer.endpoint.hosterId ?? [])),
  ])
  // Many hosters share a network, for example of a VPN. To find a request that none of them has seen takes too many queries.
  if (hosterIds.length > RELATED_MAX) return undefined
  const [isSeen, canPay, ...relatedTo] = await Promise.all([
    seen.seenBy(hosterIds, conversations),
    shares.whoCanPay(),
    ...hosterIds.map(deps.relatedCustomers),
  ])
  const related = new Set(relatedTo.flatMap(customers => [...customers]))
  const mayTake = (request: SharedRequest) => {
    const isKnown = isSeen.has(request.conversation) || hosterIds.includes(request.hosterId ?? '')
    if (isKnown || !canPay(request.customerId) || replayTurns(request.body).length === 0) return false
    const isAffordable = (offer: Offer) => shares.isAffordable(deps.estimateNanos(offer, request.body))
    return offers.every(offer => maySend(offer, request) && isAffordable(offer))
  }
  // Another node may send one to the hoster between the look and the claim.
  for (;;) {
    const taken = shared.take(modelId, endpoint.hosterId, related, mayTake)
    if (taken === undefined || (await seen.claim(taken.conversation, hosterIds))) return taken
  }
}

function replayText({ body, identifiers = {}, customerId }: SharedRequest): AuditText {
  const { messages: _messages, ...fields } = body
  const turns = replayTurns(body)
  let next = 0
  return { source: 'replay', customerId, fields, identifiers, next: async () => turns[next++] ?? null }
}
