import type { ChatJob } from '../domain/chat-job.ts'
import { ApiError } from '../domain/errors.ts'
import type { Attempt, Outcome, Receipt, Ticket } from '../domain/handoff.ts'
import { countPromptTokens } from '../wire/chat-request.ts'

/**
 * The receipt of a request that got no answer. It is free, with one exception: a client that left while a server was already
 * working on its prompt, and did so beyond its free departures, pays that server's input tokens.
 */
export function unservedReceipt(
  failure: unknown,
  ticket: Ticket,
  job: ChatJob,
  signal: AbortSignal,
  chargeEarlyLeave: () => boolean,
): Receipt {
  const attempts = attemptsOf(failure)
  const outcome = outcomeOf(failure, signal)
  const working = ticket.eligible.find(offer => offer.offerId === attempts.at(-1)?.offerId) ?? null
  const charged = outcome === 'client_gone' && working !== null && chargeEarlyLeave()
  return {
    outcome,
    offer: charged ? working : null,
    attempts,
    billedInputTokens: charged ? Math.min(countPromptTokens(job), job.inputTokensBound) : 0,
    billedOutputTokens: 0,
    reportedInputTokens: null,
    reportedOutputTokens: null,
    usageSource: charged ? 'gateway' : 'none',
    finishReason: null,
    firstTokenMs: null,
  }
}

function outcomeOf(failure: unknown, signal: AbortSignal): Outcome {
  if (signal.aborted) return signal.reason instanceof ApiError ? 'shutdown' : 'client_gone'
  if (!(failure instanceof ApiError)) return 'internal_error'
  return failure.row.status < 500 ? 'refused_upstream' : 'unserved'
}

function attemptsOf(failure: unknown): readonly Attempt[] {
  return failure instanceof Error && 'attempts' in failure ? (failure.attempts as readonly Attempt[]) : []
}
