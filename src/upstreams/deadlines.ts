import { endOfTurn } from '../runtime/end-of-turn.ts'
import { type LinkedItem, LinkedSet } from '../runtime/linked-set.ts'

/** Something that may last too long: an exchange, or the rest of a connection. */
export interface Limited extends LinkedItem<Limited> {
  /** Looks whether its time is over and acts on it. `nowMs` is performance.now(). */
  checkDeadline(nowMs: number): void
}

/** Limits are in seconds: noticing them a tenth late harms nobody. */
const CHECKED_EVERY_MS = 100

/**
 * Watches the time limits of everything under way with one timer. A timer of its own for each exchange cost it 1.5 us, to be
 * cancelled in all but a few. Owns no timer while nothing is under way.
 */
export class Deadlines {
  readonly #open = new LinkedSet<Limited>()
  #timer: NodeJS.Timeout | undefined

  add(limited: Limited): void {
    this.#open.add(limited)
    // A process that stood still hears of the time before it hears of what came meanwhile: that is read first, or we would blame the server.
    this.#timer ??= setInterval(() => endOfTurn(() => this.#check()), CHECKED_EVERY_MS)
  }

  remove(limited: Limited): void {
    this.#open.remove(limited)
  }

  /** The timer outlives the last exchange by up to one round, or a busy gateway would start one for each request. */
  #check(): void {
    const nowMs = performance.now()
    for (const limited of this.#open) limited.checkDeadline(nowMs)
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
