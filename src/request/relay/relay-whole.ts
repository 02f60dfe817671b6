import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ChunkDelta, CompletionChoice, TokenUsage } from '../../base/domain/completion.ts'
import type { DataAnswer, Receipt, Ticket, WholeAnswer } from '../../base/domain/handoff.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { hasRaisedLimit, outputCap, textSize, uncountedSize } from '../../base/domain/request-bounds.ts'
import type { MeasureText } from '../../base/domain/text-length.ts'
import { hasClientLeft } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import type { ClientDialect } from '../../wire/dialects/client-dialect.ts'
import { AnswerParts } from './answer-parts.ts'
import {
  bill,
  billedUsage,
  type Delivered,
  generatedText,
  hasMedia,
  type MeasuredTexts,
  measureLongTexts,
} from './bill.ts'
import { limitPosition, TextCutter } from './cut-text.ts'

export interface RelayContext {
  readonly ticket: Ticket
  readonly job: ChatJob
  readonly dialect: ClientDialect
  /**
   * Aborted when the client leaves, or when the drain time of the gateway is over. The reason is then the
   * ApiError `server_shutdown`.
   */
  readonly signal: CancelSignal
  /** Pays for the memory of the answer. */
  readonly memory: ByteAccount
  /**
   * Records that the client left before its first token. Returns true when it must pay for its input this
   * time.
   */
  readonly chargeEarlyDisconnect: () => boolean
  readonly measureText: MeasureText
  /** The parts of the answer will be asked for: the request is recorded. */
  readonly keepsParts: boolean
}

export interface RelayedAnswer {
  readonly receipt: Receipt
  /** Returns all generated text that was delivered. */
  readonly text: () => string
  /** Returns the parts of the text: see `AnswerParts`. */
  readonly parts: () => readonly string[]
  /** Returns the body for the client, once the charge is known. */
  body(costNanos: Nanos): string
}

/**
 * Bills a whole answer and encodes it for the client, without usage. Cuts it at `max_tokens`. Throws before anything is
 * charged if the answer cannot be encoded because it is nested too deeply.
 */
export function relayWhole(context: RelayContext, answer: WholeAnswer): RelayedAnswer | Promise<RelayedAnswer> {
  const { ticket, job, dialect, signal } = context
  const { usage: reported, ...uncut } = answer.completion
  const maxTokens = outputCap(answer.offer, job, ticket.maxTokens)
  const isExact = hasRaisedLimit(job, answer.offer)
  const choices = uncut.choices.map(choice => withinLimit(choice, maxTokens, reported, isExact))
  const completion = { ...uncut, choices }
  // A gateway that is shutting down still delivers an answer that is complete.
  const isGone = hasClientLeft(signal)
  const messages = completion.choices.map(({ message }) => message as ChunkDelta)
  const delivered: Delivered = {
    outcome: isGone ? 'client_gone' : 'served',
    // A client that left before the whole answer was ready received nothing, no matter how much was generated.
    text: isGone ? '' : generatedText(messages),
    hasMedia: !isGone && messages.some(hasMedia),
    isCut: completion.choices.some((choice, at) => choice !== uncut.choices[at]),
    reported: reported ?? null,
    finishReason: completion.choices[0]?.finish_reason ?? null,
    chargeInputOnly: isGone && context.chargeEarlyDisconnect(),
  }
  const text = dialect.answer.encode(completion, job)
  const relayed = (measured?: MeasuredTexts): RelayedAnswer => {
    const receipt = bill(ticket, job, answer, measured === undefined ? delivered : { ...delivered, measured })
    return {
      receipt,
      text: () => delivered.text.toString(),
      parts: () => partsOf(messages, delivered.text.toString()),
      body: costNanos => dialect.answer.withUsage(text, billedUsage(reported, receipt, costNanos)),
    }
  }
  return measureLongTexts(context.measureText, ticket, job, answer, delivered)?.then(relayed) ?? relayed()
}

function partsOf(messages: readonly ChunkDelta[], text: string): string[] {
  const parts = new AnswerParts()
  for (const [choice, message] of messages.entries()) parts.add(choice, message)
  return parts.of(text)
}

/**
 * Cuts a choice of a whole answer that clearly exceeds `maxTokens`, because its server ignores the limit. It then
 * ends with `length`, as a stream does. Log probabilities describe the uncut text and are left out.
 */
function withinLimit(
  choice: CompletionChoice,
  maxTokens: number,
  reported: TokenUsage | undefined,
  isExact: boolean,
): CompletionChoice {
  const message = choice.message as ChunkDelta
  const text = generatedText([message])
  const mayExceed = textSize(text, maxTokens) > uncountedSize(maxTokens) || exceeds(reported, maxTokens)
  const position = isExact || mayExceed ? limitPosition(text, maxTokens, isExact ? maxTokens : undefined) : null
  if (position === null) return choice
  const { content, refusal } = message
  const kept = new TextCutter(position).cut(message)
  return {
    index: choice.index,
    message: {
      role: 'assistant',
      ...kept,
      content: kept.content ?? (typeof content === 'string' ? '' : null),
      refusal: kept.refusal ?? (typeof refusal === 'string' ? '' : null),
    },
    logprobs: null,
    finish_reason: 'length',
  }
}

/** The report is the sum of all choices, so it only says that a choice may be too long. */
function exceeds(reported: TokenUsage | undefined, maxTokens: number): boolean {
  return (reported?.completion_tokens ?? 0) > maxTokens
}

/** Bills an answer that was computed from the input: its input tokens. It is encoded already. */
export function relayData(context: RelayContext, answer: DataAnswer): RelayedAnswer | Promise<RelayedAnswer> {
  const { ticket, job, dialect, signal } = context
  const isGone = hasClientLeft(signal)
  const delivered: Delivered = {
    outcome: isGone ? 'client_gone' : 'served',
    text: '',
    // A client that left before the answer was ready received nothing.
    hasMedia: !isGone,
    reported: answer.usage,
    finishReason: null,
    chargeInputOnly: isGone && context.chargeEarlyDisconnect(),
  }
  const relayed = (measured?: MeasuredTexts): RelayedAnswer => {
    const receipt = bill(ticket, job, answer, measured === undefined ? delivered : { ...delivered, measured })
    const usage = (costNanos: bigint) => billedUsage(answer.usage ?? undefined, receipt, costNanos)
    return {
      receipt,
      text: () => '',
      parts: () => [],
      body: costNanos => dialect.answer.withUsage(answer.body, usage(costNanos)),
    }
  }
  return measureLongTexts(context.measureText, ticket, job, answer, delivered)?.then(relayed) ?? relayed()
}
