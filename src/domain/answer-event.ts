/** Tokens as disjoint parts: the input is the sum of the first four. Null: the upstream does not report it. */
export interface UsageParts {
  readonly freshTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** Written to a cache that lives longer than the default. */
  readonly cacheWriteLongTokens: number
  readonly outputTokens: number
  /** Inside `outputTokens`. */
  readonly reasoningTokens: number | null
  /** Inside `freshTokens`. Absent: none. */
  readonly inputAudioTokens?: number
  readonly inputImageTokens?: number
  /** Inside `outputTokens`. Absent: none. */
  readonly outputAudioTokens?: number
  readonly outputImageTokens?: number
}
