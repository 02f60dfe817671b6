import { ApiError } from '../../base/domain/errors.ts'

/** Counts open connections by a name, such as an address or a key, and refuses those above a limit. */
export class ConnectionCounts {
  readonly #max: number
  readonly #what: string
  readonly #counts = new Map<string, number>()

  /** @param what the counted connections, for the error: `connections from this address` */
  constructor(max: number, what: string) {
    this.#max = max
    this.#what = what
  }

  count(name: string): number {
    return this.#counts.get(name) ?? 0
  }

  /** Returns the names with their counts, the largest first. */
  largest(): [name: string, count: number][] {
    return [...this.#counts].sort(([, a], [, b]) => b - a)
  }

  /** Throws `rate_limit_exceeded` at the limit. Returns a function that ends the connection. */
  add(name: string): () => void {
    const count = this.#counts.get(name) ?? 0
    if (count >= this.#max) {
      throw new ApiError('rate_limit_exceeded', {
        message: `Agents have ${this.#max} ${this.#what} open, the most that this node allows. Close some.`,
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
