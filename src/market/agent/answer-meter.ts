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
