/** The places of running requests: at most `total` together, and at most its own number for each model. */
export class Slots {
  readonly #total: number
  readonly #perModel: number
  readonly #running = new Map<string, number>()
  readonly #onChange: () => void
  #count = 0

  constructor(total: number, perModel: number, onChange: () => void) {
    this.#total = total
    this.#perModel = perModel
    this.#onChange = onChange
  }

  get total(): number {
    return this.#total
  }

  get perModel(): number {
    return this.#perModel
  }

  get running(): number {
    return this.#count
  }

  get free(): number {
    return this.#total - this.#count
  }

  /** Takes a place. Returns a function that gives it back, once; null when none is free. */
  take(model: string): (() => void) | null {
    const running = this.#running.get(model) ?? 0
    if (this.free <= 0 || running >= this.#perModel) return null
    this.#add(model, 1)
    let isTaken = true
    return () => {
      if (isTaken) this.#add(model, -1)
      isTaken = false
    }
  }

  #add(model: string, change: 1 | -1): void {
    const running = (this.#running.get(model) ?? 0) + change
    if (running === 0) this.#running.delete(model)
    else this.#running.set(model, running)
    this.#count += change
    this.#onChange()
  }
}
