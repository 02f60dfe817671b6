import type { Scheduler } from '../../base/runtime/scheduler.ts'

/**
 * The first entries are tried again after LOCKED_MIN_MS, later ones after twice as long as before, up to LOCKED_MAX_MS.
 */
const LOCKED_MIN_MS = 20
const LOCKED_MAX_MS = 160
/** For this long after a locked row, transactions do not wait for locked rows. */
const SKIP_MS = 1_000

/**
 * Keeps the entries of a queue apart that need a row which another session has locked, so that they delay no others.
 */
export class LockedEntries<Entry> implements Iterable<Entry> {
  readonly #scheduler: Scheduler
  readonly #retry: (entry: Entry) => void
  #entries: Entry[] = []
  #waitMs = LOCKED_MIN_MS
  #skipUntilMs = 0
  #cancel = () => {}
  #waiters: (() => void)[] = []

  /** `retry` is called with each entry when it should be sent again. */
  constructor(scheduler: Scheduler, retry: (entry: Entry) => void) {
    this.#scheduler = scheduler
    this.#retry = retry
  }

  get size(): number {
    return this.#entries.length
  }

  /** Whether the next transaction should not wait for locked rows. */
  get mustSkip(): boolean {
    return this.#scheduler.monotonicMs() < this.#skipUntilMs
  }

  /** Makes the next transactions skip locked rows. */
  skip(): void {
    if (!this.mustSkip) this.#waitMs = LOCKED_MIN_MS
    this.#skipUntilMs = this.#scheduler.monotonicMs() + SKIP_MS
  }

  /** Tries these entries again later. Returns true when entries have waited for some time. */
  add(entries: readonly Entry[]): boolean {
    this.skip()
    const isLong = this.#waitMs === LOCKED_MAX_MS / 2
    if (this.#entries.length === 0) {
      this.#cancel = this.#scheduler.after(this.#waitMs, () => this.retryNow())
      this.#waitMs = Math.min(this.#waitMs * 2, LOCKED_MAX_MS)
    }
    this.#entries.push(...entries)
    return isLong
  }

  retryNow(): void {
    this.#cancel()
    for (const entry of this.#entries.splice(0)) this.#retry(entry)
    for (const resolve of this.#waiters.splice(0)) resolve()
  }

  /** Resolves when the entries are tried again. */
  retried(): Promise<void> {
    return new Promise(resolve => this.#waiters.push(resolve))
  }

  [Symbol.iterator](): Iterator<Entry> {
    return this.#entries[Symbol.iterator]()
  }
}
