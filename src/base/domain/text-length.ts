/** The length of a text in tokens. */
export interface TextLength {
  /** Tokens in o200k_base. */
  readonly tokens: number
  /**
   * An upper bound for common vocabularies, never above the bytes of the text. It has a margin where they differ
   * from o200k_base: docs/decisions/2026-11-23-measuring-prompts.md.
   */
  readonly tokensBound: number
}

/**
 * Measures a text without holding the event loop. Resolves with null when that would take too long; then use a cheap
 * bound or estimate.
 */
export type MeasureText = (text: string, customerId: string) => Promise<TextLength | null>
