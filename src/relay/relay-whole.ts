import type { ClientDialect } from '../dialects/client-dialect.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { ChunkDelta } from '../domain/completion.ts'
import type { Receipt, Ticket, WholeAnswer } from '../domain/handoff.ts'
import type { Nanos } from '../domain/money.ts'
import { hasClientLeft } from '../domain/upstream-failure.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { bill, billedUsage } from './bill.ts'
import { generatedText } from './generated-text.ts'

export interface RelayContext {
  readonly ticket: Ticket
  readonly job: ChatJob
  readonly dialect: ClientDialect
  /** Aborted when the client leaves (any reason) or when the drain limit of the gateway passes (reason: ApiError `server_shutdown`). */
  readonly signal: CancelSignal
  /** Notes that the client left before its first token; true when it must pay for its input this time. */
  readonly chargeEarlyLeave: () => boolean
}

export interface RelayedAnswer {
  readonly receipt: Receipt
  /** The body for the client, once the charge is known. */
  body(costNanos: Nanos): string
}

/**
 * Bills a whole answer and encodes it for the client, without usage. An answer that cannot be encoded (nested too deeply) is never sent, so this
 * throws before anything is charged.
 */
export function relayWhole(context: RelayContext, answer: WholeAnswer): RelayedAnswer {
  const { ticket, job, dialect, signal } = context
  const { usage: reported, ...completion } = answer.completion
  // A gateway that is shutting down still delivers an answer that is complete.
  const isGone = hasClientLeft(signal)
  const receipt = bill(ticket, job, answer, {
    outcome: isGone ? 'client_gone' : 'served',
    // A client that left before the whole answer was ready received nothing, however much was generated.
    text: isGone ? '' : generatedText(completion.choices.map(({ message }) => message as ChunkDelta)),
    reported: reported ?? null,
    finishReason: completion.choices[0]?.finish_reason ?? null,
    chargeInputOnly: isGone && context.chargeEarlyLeave(),
  })
  const text = dialect.answer.encode(completion)
  return { receipt, body: costNanos => dialect.answer.withUsage(text, billedUsage(reported, receipt, costNanos)) }
}
