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

/** The report of the tokens is at the end of an answer. */
const TAIL_CHARACTERS = 4_096
/** Characters per token of plain English, for servers that report nothing. */
const BYTES_PER_TOKEN = 4

/** Finds out how many tokens an answer took, from the report at its end, or else from its length. */
export class AnswerMeter {
  #tail = ''
  #bytes = 0

  add(piece: Buffer): void {
    this.#bytes += piece.length
    this.#tail = (this.#tail + piece.toString('latin1', Math.max(0, piece.length - TAIL_CHARACTERS))).slice(
      -TAIL_CHARACTERS,
    )
  }

  /** @param promptBytes the length of the request, which counts where nothing is reported */
  tokens(promptBytes: number): number {
    const reported = [...this.#tail.matchAll(/"total_tokens" ?: ?(\d{1,9})/g)].at(-1)
    return reported ? Number(reported[1]) : Math.ceil((this.#bytes + promptBytes) / BYTES_PER_TOKEN)
  }
}
