import { envelopeOf } from '../dialects/chat/envelope.ts'
import { DONE, encodeChunk, encodeErrorChunk, usageChunk } from '../dialects/chat/sse-encode.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { ChunkDelta, TokenUsage } from '../domain/completion.ts'
import { ApiError } from '../domain/errors.ts'
import type { Answer, Outcome, Receipt, StreamAnswer, Ticket, WholeAnswer } from '../domain/handoff.ts'
import { type Nanos, usd } from '../domain/money.ts'
import { Cancelled, type CancelReason, hasClientLeft, UpstreamFailure } from '../domain/upstream-failure.ts'
import type { CancelSignal } from '../runtime/cancel-signal.ts'
import { failpoint } from '../runtime/failpoint.ts'
import { bill } from './bill.ts'
import { generatedText } from './generated-text.ts'
import { PassingStream } from './passing-stream.ts'

/** Ends the ticket; resolves with the charge once it can no longer be lost, throws `settlement_unavailable` when that takes too long. */
export type SettleReceipt = (receipt: Receipt) => Promise<Nanos>

export interface RelayContext {
  readonly ticket: Ticket
  readonly job: ChatJob
  readonly settle: SettleReceipt
  /** Aborted when the client leaves (any reason) or the gateway's drain limit passes (reason: ApiError `server_shutdown`). */
  readonly signal: CancelSignal
  /** Whether a client that leaves before the first token is charged for its input this time. */
  readonly chargeEarlyLeave: () => boolean
  /** Told what broke, for the log: the client hears only that something did. */
  readonly onFault: (fault: unknown) => void
}

/** What goes to the client: a whole JSON body, or an event stream. */
export type Delivery =
  | { readonly kind: 'whole'; readonly body: string; readonly costNanos: Nanos }
  | { readonly kind: 'stream'; readonly sendTo: (write: WriteFrames) => Promise<void> }

/** Takes complete events, one or more. While a promise it returned is pending, nothing more is written. */
export type WriteFrames = (frames: string) => void | Promise<void>

/**
 * Passes an answer on, counting what passes, and settles its ticket exactly once however it ends.
 * A whole answer is handed over when its charge can no longer be lost; a stream keeps back its last events until then.
 * `sendTo` has to be called, once, also when the client is gone.
 */
export function relay(context: RelayContext, answer: Answer): Promise<Delivery> {
  if (answer.kind === 'whole') return relayWhole(context, answer)
  return Promise.resolve({ kind: 'stream', sendTo: write => relayStream(context, answer, write) })
}

async function relayWhole(
  { ticket, job, settle, signal, chargeEarlyLeave }: RelayContext,
  answer: WholeAnswer,
): Promise<Delivery> {
  const { completion } = answer
  // A gateway that has to stop may still hand over what is ready.
  const gone = hasClientLeft(signal)
  const receipt = bill(ticket, job, answer, {
    outcome: gone ? 'client_gone' : 'served',
    // A client that left before the whole answer was ready received nothing, however much was generated.
    text: gone ? '' : generatedText(completion.choices.map(({ message }) => message as ChunkDelta)),
    reported: completion.usage ?? null,
    finishReason: completion.choices[0]?.finish_reason ?? null,
    chargeInputOnly: gone && chargeEarlyLeave(),
  })
  const { usage: reported, ...rest } = completion
  // Before it is charged: there are answers that cannot be written, nested too deep, and what is never sent is free.
  const text = JSON.stringify(rest)
  const costNanos = await settle(receipt)
  const usage = JSON.stringify(billedUsage(reported, receipt, costNanos))
  return { kind: 'whole', body: `${text.slice(0, -1)},"usage":${usage}}`, costNanos }
}

async function relayStream(context: RelayContext, answer: StreamAnswer, write: WriteFrames): Promise<void> {
  const { ticket, job, settle, signal, chargeEarlyLeave, onFault } = context
  const envelope = envelopeOf(ticket, answer.offer.modelId)
  const passing = new PassingStream(envelope, job, ticket.maxTokens)
  let failure: unknown
  let outcome: Outcome = 'served'
  try {
    await answer.chunks.read(parts => {
      const frames = passing.framesOf(parts)
      if (passing.isCut) answer.chunks.leave()
      failpoint('relay-mid-stream')
      return frames === '' ? undefined : write(frames)
    })
  } catch (error) {
    failure = error
    outcome = brokenOffAs(error)
    if (outcome === 'interrupted') onFault(error)
  }

  const { text, finishReason } = passing
  // Gemini reports in every chunk (ogx issue 5122), what it thought included, of which a client that left has no text that could be counted.
  const reported = outcome === 'client_gone' ? answer.chunks.usage : passing.reported
  const end = bill(ticket, job, answer, {
    outcome,
    text,
    reported,
    finishReason,
    chargeInputOnly: outcome === 'client_gone' && text.length === 0 && chargeEarlyLeave(),
  })
  let costNanos = 0n
  try {
    costNanos = await settle(end)
  } catch (error) {
    if (!(error instanceof ApiError)) onFault(error)
    outcome = 'interrupted'
    failure = error
  }
  if (outcome === 'client_gone' && signal.aborted) return
  if (outcome !== 'served') await write(encodeErrorChunk(endError(failure, signal)))
  else if (!job.includeUsage) await write(DONE)
  else await write(encodeChunk(usageChunk(envelope, billedUsage(reported ?? undefined, end, costNanos))) + DONE)
}

/**
 * Told by what ended the answer, not by who is gone by now: where an upstream broke off and the client left while it was still reading what had
 * come before, the server's fault is free.
 */
function brokenOffAs(error: unknown): Outcome {
  return error instanceof Cancelled ? outcomeOf[error.reason] : 'interrupted'
}

const outcomeOf: Record<CancelReason, Outcome> = {
  client_left: 'client_gone',
  read_too_slowly: 'client_gone',
  gateway_stopping: 'shutdown',
  // Nobody but us does that, and then does not ask how it ended.
  not_wanted: 'interrupted',
}

function endError(failure: unknown, signal: CancelSignal): ApiError {
  if (failure instanceof ApiError) return failure
  const reason = failure instanceof Cancelled ? failure.reason : null
  if (reason === 'gateway_stopping') {
    return signal.reason instanceof ApiError ? signal.reason : new ApiError('server_shutdown')
  }
  if (reason === 'read_too_slowly') {
    return new ApiError('stream_interrupted', {
      message:
        'The answer was read so slowly that its time limit passed; what was generated until then is charged. Read faster, or ask for less.',
      internal: failure,
    })
  }
  return new ApiError(failure instanceof UpstreamFailure ? 'stream_interrupted' : 'internal_error', {
    internal: failure,
  })
}

/**
 * The usage the client is shown is the usage it is billed for, with the charge; details of the upstream (cached, reasoning) are
 * kept beside it, none above the sum that it is a part of: clients subtract.
 */
function billedUsage(reported: TokenUsage | undefined, receipt: Receipt, costNanos: Nanos): TokenUsage {
  const { billedInputTokens, billedOutputTokens } = receipt
  const usage: TokenUsage = {
    ...reported,
    prompt_tokens: billedInputTokens,
    completion_tokens: billedOutputTokens,
    total_tokens: billedInputTokens + billedOutputTokens,
    cost_usd: usd(costNanos),
  }
  const { prompt_tokens_details: ofInput, completion_tokens_details: ofOutput } = usage
  if (ofInput) usage.prompt_tokens_details = atMost(ofInput, billedInputTokens)
  if (ofOutput) usage.completion_tokens_details = atMost(ofOutput, billedOutputTokens)
  return usage
}

function atMost(counts: object, max: number): Record<string, number> {
  const bounded: Record<string, number> = {}
  for (const [name, count] of Object.entries(counts)) bounded[name] = Math.min(count, max)
  return bounded
}
