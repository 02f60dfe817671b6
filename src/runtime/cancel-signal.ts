/**
 * Tells a running request that it is to stop. The part of an AbortSignal that the request path uses, so that a real one fits
 * wherever this is asked for. Requests themselves carry a `Stop`: an AbortController and its EventTarget cost 3 us and 2 KB a
 * request, for something that hardly ever fires.
 */
export interface CancelSignal {
  readonly aborted: boolean
  /** What `aborted` is due to. */
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** A signal and its trigger in one. Listeners run in the order they came, once. */
export class CancelSource implements CancelSignal {
  aborted = false
  reason: unknown = undefined
  #listeners: (() => void)[] = []

  /** Only the first call counts. */
  abort(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    const listeners = this.#listeners
    this.#listeners = []
    for (const listener of listeners) listener()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener)
    if (at >= 0) this.#listeners.splice(at, 1)
  }
}
