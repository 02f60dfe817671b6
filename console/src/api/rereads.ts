/** How long after a first change an area is read again. */
const SOON_MS = 2_000

export interface Timer {
  nowMs(): number
  /** Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void
}

/** Calls `read` for each area that has changed: soon after a first change, and rarely while it goes on changing. */
export class Rereads {
  readonly #read: (area: string) => void
  readonly #timer: Timer
  readonly #planned = new Map<string, { readonly atMs: number; readonly cancel: () => void }>()
  readonly #lastMs = new Map<string, number>()

  constructor(read: (area: string) => void, timer: Timer) {
    this.#read = read
    this.#timer = timer
  }

  /** @param everyMs the least time between two readings of the area */
  plan(area: string, everyMs: number): void {
    const nowMs = this.#timer.nowMs()
    const atMs = Math.max(nowMs + SOON_MS, (this.#lastMs.get(area) ?? -Infinity) + everyMs)
    const planned = this.#planned.get(area)
    if (planned !== undefined && planned.atMs <= atMs) return
    planned?.cancel()
    const cancel = this.#timer.after(atMs - nowMs, () => {
      this.#planned.delete(area)
      this.#lastMs.set(area, this.#timer.nowMs())
      this.#read(area)
    })
    this.#planned.set(area, { atMs, cancel })
  }

  end(): void {
    for (const { cancel } of this.#planned.values()) cancel()
    this.#planned.clear()
  }
}
