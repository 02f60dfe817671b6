/** Runs work whose transaction is rolled back by `undo`, and returns what it was given: what would have happened, exactly. */
export async function withoutEffect<T>(work: (undo: (outcome: T) => never) => Promise<unknown>): Promise<T> {
  const rolledBack = new Error('rolled back on purpose')
  let outcome: T | undefined
  try {
    await work(found => {
      outcome = found
      throw rolledBack
    })
  } catch (error) {
    if (error !== rolledBack) throw error
  }
  return outcome as T
}
