import { type LinkedItem, LinkedSet } from '../../base/runtime/linked-set.ts'
import { endOfTurn } from '../../base/runtime/scheduler.ts'

/** Something with a time limit, such as an exchange. */
export interface TimeLimited extends LinkedItem<TimeLimited> {
  /** Acts on a time limit that is exceeded. `nowMs` is performance.now(). */
  checkDeadline(nowMs: number): void
}

/** Time limits are seconds long, so enforcing them 0.1 s late is harmless. */
const CHECK_INTERVAL_MS = 100

/**
 * Enforces the time limits of all exchanges with one timer. A timer per exchange cost
 * 1.5 us, and nearly all of them were cancelled. Keeps no timer while nothing is watched.
 */
export class Deadlines {
  readonly #watched = new LinkedSet<TimeLimited>()
  #timer: NodeJS.Timeout | undefined

  add(item: TimeLimited): void {
    this.#watched.add(item)
    // After a stall of this process the timer fires before waiting data is read. Checking at the end of the
    // turn avoids blaming the server.
    this.#timer ??= setInterval(() => endOfTurn(() => this.#check()), CHECK_INTERVAL_MS)
  }

  remove(item: TimeLimited): void {
    this.#watched.remove(item)
  }

  /** Stops the timer here and not in `remove`: a busy gateway would otherwise start a timer for each request. */
  #check(): void {
    const nowMs = performance.now()
    for (const item of this.#watched) item.checkDeadline(nowMs)
    if (this.#watched.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
