/** Waits for what a child process does, such as writing a line. */
export interface Changes {
  /** Reports that something changed. */
  readonly changed: () => void
  /** Whether the process has ended. */
  readonly isOver: () => boolean
  /**
   * Resolves with the first value that `find` returns, now or after a change. Rejects with the text of `whyNot` when
   * the process ends first.
   */
  waitFor<T>(find: () => T | undefined, whyNot: () => string): Promise<T>
}

/** @param closed resolves when the process has ended and its output was read */
export function watchChanges(closed: Promise<unknown>): Changes {
  let isOver = false
  let change = Promise.withResolvers<void>()
  const changed = () => {
    change.resolve()
    change = Promise.withResolvers()
  }
  closed.then(() => {
    isOver = true
    changed()
  })
  return {
    changed,
    isOver: () => isOver,
    async waitFor(find, whyNot) {
      for (;;) {
        const found = find()
        if (found !== undefined) return found
        if (isOver) throw new Error(whyNot())
        await change.promise
      }
    },
  }
}
