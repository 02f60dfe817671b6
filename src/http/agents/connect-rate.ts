/** All agents of a hoster come back at once when a node restarts. */
const BURST_MAX = 256
const PER_SECOND = 4

/**
 * Limits how often the agents of a hoster open control connections: each one asks the database three questions, and notes that the
 * hoster serves. An agent opens one and keeps it.
 */
export class ConnectRate {
  readonly #left = new Map<string, { free: number; sinceMs: number }>()

  /** Counts an attempt at `nowMs`. Returns whether it is one too many. Refused ones do not count. */
  isFloodAfter(hosterId: string, nowMs: number): boolean {
    const entry = this.#left.get(hosterId) ?? { free: BURST_MAX, sinceMs: nowMs }
    const free = refilled(entry, nowMs)
    this.#left.set(hosterId, { free: free >= 1 ? free - 1 : free, sinceMs: nowMs })
    return free < 1
  }

  /** Forgets the hosters that may open as many as ever. Call it now and then. */
  forgetRested(nowMs: number): void {
    for (const [hosterId, entry] of this.#left) if (refilled(entry, nowMs) === BURST_MAX) this.#left.delete(hosterId)
  }

  get size(): number {
    return this.#left.size
  }
}

function refilled({ free, sinceMs }: { readonly free: number; readonly sinceMs: number }, nowMs: number): number {
  return Math.min(BURST_MAX, free + ((nowMs - sinceMs) * PER_SECOND) / 1_000)
}
