/** A window of this many slices is kept, so that a minute never has more than the limit by more than one answer. */
const SLICES = 12
const SLICE_MS = 5_000

/** The tokens of the last minute, against a limit. */
export class TokenRate {
  readonly #limit: number
  readonly #nowMs: () => number
  readonly #slices = new Map<number, number>()

  /** @param limit tokens per minute; null for none */
  constructor(limit: number | null, nowMs: () => number) {
    this.#limit = limit ?? Number.POSITIVE_INFINITY
    this.#nowMs = nowMs
  }

  add(tokens: number): void {
    const slice = Math.floor(this.#nowMs() / SLICE_MS)
    this.#slices.set(slice, (this.#slices.get(slice) ?? 0) + tokens)
  }

  get isUsedUp(): boolean {
    const oldest = Math.floor(this.#nowMs() / SLICE_MS) - SLICES
    let sum = 0
    for (const [slice, tokens] of this.#slices) {
      if (slice <= oldest) this.#slices.delete(slice)
      else sum += tokens
    }
    return sum >= this.#limit
  }
}
