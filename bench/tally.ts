/** Counts of requests. */
export type Tally = { sent: number; ok: number; failed: number }

export function createTally(): Tally {
  return { sent: 0, ok: 0, failed: 0 }
}

/** Adds the counts of a result to a tally and returns the result. */
export function addToTally<Result extends Tally>(tally: Tally, result: Result): Result {
  tally.sent += result.sent
  tally.ok += result.ok
  tally.failed += result.failed
  return result
}
