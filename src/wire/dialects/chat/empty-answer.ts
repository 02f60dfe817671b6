import type { ChatCompletion } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { AnswerBounds } from '../../../base/domain/request-bounds.ts'

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
