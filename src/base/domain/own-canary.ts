/** A prompt of the operator with an answer that a program can check. */
export interface OwnCanary {
  readonly prompt: string
  readonly system?: string | undefined
  /** The answer has one of these as whole words, in any case. */
  readonly answers: readonly string[]
  readonly maxTokens: number
  /** Only for these models; undefined: for all. */
  readonly models?: readonly string[] | undefined
}
