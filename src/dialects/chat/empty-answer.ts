import type { StreamPart } from '../../domain/handoff.ts'

/** The properties of a request that decide which answers are valid. */
export interface ExpectedAnswer {
  /** The request's `n`. */
  readonly choices: number
  /** The request has `stop` sequences. */
  readonly hasStop: boolean
}

/**
 * True if an answer without output is still valid, so that another server would only repeat it: a content
 * filter refused, or tokens were generated but none is visible, because hidden reasoning used up max_tokens
 * or a `stop` sequence came first.
 */
export function isEmptyAnswer(
  finishReasons: readonly unknown[],
  outputTokens: number,
  { hasStop }: ExpectedAnswer,
): boolean {
  if (finishReasons.includes('content_filter')) return true
  return outputTokens > 0 && (finishReasons.includes('length') || (hasStop && finishReasons.includes('stop')))
}

/** Like `isEmptyAnswer`, for the parts of a stream that has ended. */
export function isEmptyStream(parts: readonly StreamPart[], expected: ExpectedAnswer): boolean {
  const chunks = parts.filter(part => typeof part !== 'string')
  const reasons = chunks.flatMap(chunk => chunk.choices.map(choice => choice.finish_reason))
  return isEmptyAnswer(reasons, chunks.at(-1)?.usage?.completion_tokens ?? 0, expected)
}
