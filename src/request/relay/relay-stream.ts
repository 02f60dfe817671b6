import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, MEMORY_USED_UP } from '../../base/domain/errors.ts'
import type { Outcome, Receipt, StreamAnswer } from '../../base/domain/handoff.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { hasRaisedLimit, outputCap } from '../../base/domain/request-bounds.ts'
import { Cancelled, type CancelReason, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { StreamEncoder } from '../../wire/dialects/client-dialect.ts'
import { AnswerParts } from './answer-parts.ts'
import { bill, billedUsage, type Delivered, measureLongTexts } from './bill.ts'
import { MeteredStream } from './metered-stream.ts'
import type { RelayContext } from './relay-whole.ts'

/** Writes one or more complete events. While the returned promise is pending, nothing more is written. */
export type WriteEvents = (events: string) => void | Promise<void>

/**
 * A stream that has ended, except for its last events, which are sent once the charge is in the journal, or
 * committed.
 */
export interface RelayedStream {
  readonly receipt: Receipt
  /** Returns all generated text. */
  readonly text: () => string
  /** Returns the parts of the text: see `AnswerParts`. Empty unless `keepsParts`. */
  readonly parts: () => readonly string[]
  /** The error that broke the stream; undefined when it did not break. */
  readonly failure: unknown
  /** The last events for the client when the receipt is settled. Empty for a client that is gone. */
  lastEvents(costNanos: Nanos): string
  /** The last events for the client when the receipt could not be settled. */
  unsettledEvents(fault: unknown): string
}

/**
 * Passes a stream on to the client event by event and records what billing needs. Resolves however the stream
 * ends.
 *
 * @param encoder a new one of the client's dialect
 */
export async function relayStream(
  context: RelayContext,
  answer: StreamAnswer,
  encoder: StreamEncoder,
  write: WriteEvents,
): Promise<RelayedStream> {
  const { ticket, job, signal, memory } = context
  const parts = context.keepsParts ? new AnswerParts() : null
  const stream = new MeteredStream(
    encoder,
    job,
    { maxTokens: outputCap(answer.offer, job, ticket.maxTokens), isExact: hasRaisedLimit(job, answer.offer) },
    memory,
    parts,
  )
  let failure: unknown
  let outcome: Outcome = 'served'
  try {
    await answer.chunks.read(parts => {
      const events = stream.encode(parts)
      if (stream.isCut) answer.chunks.leave()
      failpoint('relay-mid-stream')
      const written = events === '' ? undefined : write(events)
      return stream.isBehind ? catchUp(context, stream, answer, write, written) : written
    })
  } catch (error) {
    failure = error
    outcome = toOutcome(error)
  }

  const { text, hasMedia, finishReason, isCut } = stream
  // Thinking tokens cannot be counted in the text that a client received before it left. Gemini reports them
  // in every chunk (ogx issue 5122), so the latest report is used.
  const reported = outcome === 'client_gone' ? answer.chunks.usage : stream.reported
  const delivered: Delivered = {
    outcome,
    text,
    hasMedia,
    isCut,
    reported,
    finishReason,
    chargeInputOnly: outcome === 'client_gone' && text.length === 0 && !hasMedia && context.chargeEarlyDisconnect(),
  }
  const measuring = measureLongTexts(context.measureText, ticket, job, answer, delivered)
  const measured = measuring && (await measuring)
  const receipt = bill(ticket, job, answer, { ...delivered, measured })
  return {
    receipt,
    text: () => text.toString(),
    parts: () => parts?.of(text.toString()) ?? [],
    failure,
    lastEvents(costNanos) {
      if (outcome === 'client_gone' && signal.aborted) return ''
      if (outcome !== 'served') return encoder.fail(toClientError(failure, signal))
      return encoder.end(billedUsage(reported ?? undefined, receipt, costNanos))
    },
    unsettledEvents: fault => encoder.fail(toClientError(fault, signal)),
  }
}

/**
 * Counts a text with so many characters per token that it may be too long. It pauses between parts of the text, so that
 * many such streams do not hold the event loop together.
 */
async function catchUp(
  { signal }: RelayContext,
  stream: MeteredStream,
  answer: StreamAnswer,
  write: WriteEvents,
  written: void | Promise<void>,
): Promise<void> {
  await written
  while (stream.isBehind && !signal.aborted) {
    await delay(COUNTING_PAUSE_MS)
    const events = stream.catchUp()
    if (events !== '') await write(events)
  }
  if (stream.isCut) answer.chunks.leave()
}

const COUNTING_PAUSE_MS = 100

/**
 * Depends on what ended the stream, not on the state of the client. If an upstream fails, and the client leaves
 * while it is still reading earlier events, the upstream caused the failure and the answer is free.
 */
function toOutcome(error: unknown): Outcome {
  return error instanceof Cancelled ? outcomeByReason[error.reason] : 'interrupted'
}

const outcomeByReason: Record<CancelReason, Outcome> = {
  client_left: 'client_gone',
  read_too_slowly: 'client_gone',
  gateway_stopping: 'shutdown',
  memory_used_up: 'interrupted',
  connections_used_up: 'interrupted',
  // Does not occur here: when the gateway itself leaves a stream, `read` does not reject.
  not_wanted: 'interrupted',
}

/** Returns the error with which the client learns that its stream broke off. */
export function toClientError(failure: unknown, signal: CancelSignal): ApiError {
  if (failure instanceof ApiError) return failure
  const reason = failure instanceof Cancelled ? failure.reason : null
  if (reason === 'gateway_stopping') {
    return signal.reason instanceof ApiError ? signal.reason : new ApiError('server_shutdown')
  }
  if (reason === 'memory_used_up') return new ApiError('overloaded', { message: MEMORY_USED_UP, internal: failure })
  if (reason === 'read_too_slowly') {
    return new ApiError('stream_interrupted', {
      message:
        'The answer was read too slowly and reached its time limit. The generated part is charged. Read faster, or request less output.',
      internal: failure,
    })
  }
  return new ApiError(failure instanceof UpstreamFailure ? 'stream_interrupted' : 'internal_error', {
    internal: failure,
  })
}
