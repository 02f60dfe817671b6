/**
 * Signals a running request to stop. It is the part of AbortSignal that the request path uses, so an
 * AbortSignal can be passed too. Requests use a `CancelSource`: an AbortController and its EventTarget cost 3
 * us and 2 KB a request, for an event that hardly ever fires.
 */
export interface CancelSignal {
  readonly aborted: boolean
  /** The argument of `abort`. */
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * A signal together with its trigger. Listeners run once, in the order they were added. Unlike those of an AbortSignal, a
 * listener that an earlier one removes during `abort` still runs, and one that throws keeps the later ones from running.
 */
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
