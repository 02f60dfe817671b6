import { type Offer, serves, TRUSTED_ABOVE } from '../../../base/domain/offer.ts'
import { isNonEmpty, lastOf } from '../../../base/runtime/collections.ts'
import type { SharedRequest } from './shared-requests.ts'

export interface Message {
  readonly role: string
  readonly content?: unknown
}

/** A conversation is repeated for so many answers at most. */
const TURNS_MAX = 4

/**
 * Splits the messages of a request into turns: those that come before each answer. A hoster that repeats the
 * conversation gets its own answers between them, so that it never reads another server's. A request with tools is one
 * turn, with all answers in it: their results fit only to the calls that were recorded.
 */
export function replayTurns(body: SharedRequest['body']): readonly (readonly Message[])[] {
  const messages = Array.isArray(body.messages) ? (body.messages as Message[]) : []
  if (!isNonEmpty(messages)) return []
  const isPlain = messages.every(
    message => ['system', 'developer', 'user', 'assistant'].includes(message.role) && !('tool_calls' in message),
  )
  if (!isPlain || body.tools !== undefined || lastOf(messages).role === 'assistant') return [messages]
  let turn: Message[] = []
  const turns = [turn]
  for (const message of messages) {
    if (message.role !== 'assistant') turn.push(message)
    else if (turn.some(({ role }) => role === 'user')) {
      turn = []
      turns.push(turn)
    }
    // An application may greet first, and no server has written that.
    else if (turns.length === 1) turn.push(message)
  }
  return turns.slice(0, TURNS_MAX)
}

/**
 * Whether the routing constraints of the request allow this offer: a server that its customer has ruled out does not
 * see it.
 */
export function maySend(offer: Offer, { constraints }: Pick<SharedRequest, 'constraints'>): boolean {
  const { kind, hosterId, trustScore } = offer.endpoint
  const { maxInputPicoPerToken, maxOutputPicoPerToken } = constraints
  if (!serves(offer, 'chat')) return false
  if (kind === 'cloud') return !constraints.privacyMode
  if (kind === 'local' || hosterId === null) return true
  if (constraints.trustedOnly && !((trustScore ?? 0) > TRUSTED_ABOVE)) return false
  // How fast the hoster is decides about these, and audits do not measure it.
  if (constraints.maxLatencyMs !== null || constraints.denyHosters.has(hosterId)) return false
  if (constraints.allowHosters !== null && !constraints.allowHosters.has(hosterId)) return false
  if (maxInputPicoPerToken !== undefined && offer.price.inputPicoPerToken > maxInputPicoPerToken) return false
  return maxOutputPicoPerToken === undefined || offer.price.outputPicoPerToken <= maxOutputPicoPerToken
}
