import type { ChatJob } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Outcome, Receipt, Ticket } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { hasClientLeft, Unserved } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import { countPromptTokens } from '../../wire/tokens/count-tokens.ts'

/**
 * Returns the receipt of a request that got no answer. The request is free, with one exception: a client that
 * left while a server was working on its prompt, and that has used up its free early disconnects, pays for the
 * input tokens at that server's price.
 */
export function unservedReceipt(
  failure: unknown,
  ticket: Ticket,
  job: ChatJob,
  signal: CancelSignal,
  chargeEarlyDisconnect: (offer: Offer) => boolean,
): Receipt {
  const attempts = failure instanceof Unserved ? failure.attempts : []
  const outcome = toOutcome(failure, signal)
  const last = attempts.at(-1)
  // With any other outcome of the last attempt, no server was working when the client left: the attempt had
  // failed, or nothing had been sent. Earlier attempts failed and are not charged.
  const wasCancelled = last?.outcome === 'cancelled'
  const workingOffer = wasCancelled ? (ticket.eligible.find(offer => offer.offerId === last.offerId) ?? null) : null
  const charged = outcome === 'client_gone' && workingOffer !== null && chargeEarlyDisconnect(workingOffer)
  const free = { ...faultReceipt, outcome, attempts }
  if (!charged) return free
  const inputTokens = countPromptTokens(job, ticket.promptLength)
  return {
    ...free,
    offer: workingOffer,
    billedInputTokens: inputTokens,
    countedInputTokens: inputTokens,
    usageSource: 'gateway',
  }
}

/** The receipt of a request that failed inside the gateway. */
export const faultReceipt: Receipt = {
  outcome: 'internal_error',
  offer: null,
  attempts: [],
  billedInputTokens: 0,
  billedOutputTokens: 0,
  billedParts: null,
  reportedInputTokens: null,
  reportedOutputTokens: null,
  countedInputTokens: null,
  countedOutputTokens: null,
  usageSource: 'none',
  finishReason: null,
  firstTokenMs: null,
}

function toOutcome(failure: unknown, signal: CancelSignal): Outcome {
  if (signal.aborted) return hasClientLeft(signal) ? 'client_gone' : 'shutdown'
  if (!(failure instanceof ApiError)) return 'internal_error'
  return failure.row.status < 500 ? 'refused_upstream' : 'unserved'
}
