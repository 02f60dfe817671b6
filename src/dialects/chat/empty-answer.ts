/** Of the request, what its answer may be like. */
export interface ExpectedAnswer {
  /** `n` */
  readonly choices: number
  /** It names `stop` sequences. */
  readonly hasStop: boolean
}

/**
 * Whether no output is an answer all the same, which another server would only repeat: a filter refused, or tokens were generated and are not
 * shown, because hidden reasoning used up max_tokens or a `stop` sequence came first.
 */
export function isEmptyAnswer(
  finishReasons: readonly unknown[],
  outputTokens: number,
  { hasStop }: ExpectedAnswer,
): boolean {
  if (finishReasons.includes('content_filter')) return true
  return outputTokens > 0 && (finishReasons.includes('length') || (hasStop && finishReasons.includes('stop')))
}
