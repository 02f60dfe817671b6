import type { AnswerEvent, AnswerFinish } from '../../../base/domain/answer-event.ts'
import type { ChatCompletion, FinishReason } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { AnswerBounds } from '../../../base/domain/request-bounds.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'

const known = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_calls', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'function_call'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
  ['recitation', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['refusal', 'content_filter'],
])

/**
 * Reasons that report a broken-off answer: OpenRouter and Mistral send `error`, vLLM and SGLang `abort` (vLLM issue
 * 57082, SGLang pull request 2956), Zhipu `network_error` (LiteLLM issue 23386), DeepSeek
 * `insufficient_system_resource`.
 */
const failures = new Set(['error', 'abort', 'aborted', 'cancelled', 'network_error', 'insufficient_system_resource'])

/**
 * Maps an upstream's finish_reason to one of OpenAI's; unknown reasons become `stop`. Returns null if `value` is
 * null, undefined or empty. Throws UpstreamFailure if the reason reports a broken-off answer.
 */
export function readFinishReason(value: unknown): FinishReason | null {
  if (value === null || value === undefined || value === '') return null
  const reason = typeof value === 'string' ? value.toLowerCase() : ''
  if (reason === 'null') return null
  if (failures.has(reason)) throw new UpstreamFailure('server_error', 'The upstream ended its answer with an error.')
  return known.get(reason) ?? 'stop'
}

/** Corrects `stop` after tool calls, which Gemini sends: clients would never run the calls. */
export function finishReasonAfter(reason: FinishReason, calledTools: boolean): FinishReason {
  return reason === 'stop' && calledTools ? 'tool_calls' : reason
}

type Finish = Extract<AnswerEvent, { kind: 'finish' }>
type FinishFields = { finish_reason: FinishReason; stop_reason?: string; native_finish_reason?: string }

/** The name that OpenRouter and Anthropic give to the end of a context. */
const CONTEXT_FULL = 'model_context_window_exceeded'

const reasons: Readonly<Record<AnswerFinish, FinishReason>> = {
  end: 'stop',
  stop_sequence: 'stop',
  limit: 'length',
  tools: 'tool_calls',
  refused: 'content_filter',
  context_full: 'length',
}

/**
 * Returns the fields of a choice that say how its answer ended. The stop sequence stands in `stop_reason`, as vLLM
 * sends it, and the end of a context in `native_finish_reason`, as OpenRouter sends it.
 */
export function finishFields({ reason, stopSequence }: Finish): FinishFields {
  return {
    finish_reason: reasons[reason],
    ...(stopSequence !== undefined && { stop_reason: stopSequence }),
    ...(reason === 'context_full' && { native_finish_reason: CONTEXT_FULL }),
  }
}

/** Reads how the answer of a choice ended. */
export function readFinish(choice: { readonly [field: string]: unknown }, hasCalls: boolean): Finish {
  const { finish_reason: reason, stop_reason: stopSequence, native_finish_reason: native } = choice
  switch (reason) {
    case 'length':
      return { kind: 'finish', reason: native === CONTEXT_FULL ? 'context_full' : 'limit' }
    case 'content_filter':
      return { kind: 'finish', reason: 'refused' }
    default:
      // vLLM names a stop token by its number, which is no sequence of the request.
      if (hasCalls) return { kind: 'finish', reason: 'tools' }
      if (reason !== 'stop' || typeof stopSequence !== 'string') return { kind: 'finish', reason: 'end' }
      return { kind: 'finish', reason: 'stop_sequence', stopSequence }
  }
}

/** The properties of a request that decide which answers are valid. */
export interface ExpectedAnswer {
  /** The request's `n`. */
  readonly choices: number
  /** The request has `stop` sequences. */
  readonly hasStop: boolean
  /** The limit of output tokens per choice that was sent. */
  readonly maxTokens: number
  readonly bounds: AnswerBounds
  /** See UpstreamQuirks. */
  readonly hidesReasoning: boolean
}

/**
 * What an answer without output means. `invalid`: a failure of the server, try the next one. `valid`: the
 * request caused it, so another server would only repeat it: hidden reasoning used up max_tokens, or a `stop`
 * sequence came first. `suspect`: only the server's claim explains it: a content filter refused, or the limit
 * was reached although half of the tokens were not used. It is delivered, but counts against a hoster.
 */
export type EmptyAnswer = 'valid' | 'suspect' | 'invalid'

export function judgeEmptyAnswer(
  finishReasons: readonly unknown[],
  outputTokens: number,
  { hasStop, maxTokens }: ExpectedAnswer,
): EmptyAnswer {
  if (finishReasons.includes('content_filter')) return 'suspect'
  if (outputTokens === 0) return 'invalid'
  // Gemini ends with `length` a little before the limit.
  if (finishReasons.includes('length')) return outputTokens * 2 >= maxTokens ? 'valid' : 'suspect'
  return hasStop && finishReasons.includes('stop') ? 'valid' : 'invalid'
}

/** Judges a completion. Returns null if it has output. */
export function judgeCompletion({ choices, usage }: ChatCompletion, expected: ExpectedAnswer): EmptyAnswer | null {
  for (const { message } of choices) {
    for (const key in message) if (key !== 'role' && message[key] !== null && message[key] !== '') return null
  }
  const reasons = choices.map(choice => choice.finish_reason)
  return judgeEmptyAnswer(reasons, usage?.completion_tokens ?? 0, expected)
}

/** Judges the parts of a stream that has ended without output. */
export function judgeEmptyStream(parts: readonly StreamPart[], expected: ExpectedAnswer): EmptyAnswer {
  const chunks = parts.filter(part => typeof part !== 'string')
  const reasons = chunks.flatMap(chunk => chunk.choices.map(choice => choice.finish_reason))
  return judgeEmptyAnswer(reasons, chunks.at(-1)?.usage?.completion_tokens ?? 0, expected)
}
