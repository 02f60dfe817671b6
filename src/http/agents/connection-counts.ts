import { ApiError } from '../../domain/errors.ts'

/** Counts open connections by a name, such as an address or a key, and refuses those above a limit. */
export class ConnectionCounts {
  readonly #max: number
  readonly #of: string
  readonly #counts = new Map<string, number>()

  /** @param of what the connections have in common, for the error: `this address` */
  constructor(max: number, of: string) {
    this.#max = max
    this.#of = of
  }

  /** Throws `rate_limit_exceeded` at the limit. Returns a function that ends the connection. */
  add(name: string): () => void {
    const count = this.#counts.get(name) ?? 0
    if (count >= this.#max) {
      throw new ApiError('rate_limit_exceeded', {
        message: `Agents have ${this.#max} connections open from ${this.#of}, the most that this node allows. Close some.`,
        retryAfterS: 5,
      })
    }
    this.#counts.set(name, count + 1)
    return () => {
      const left = this.#counts.get(name)! - 1
      if (left === 0) this.#counts.delete(name)
      else this.#counts.set(name, left)
    }
  }
}
