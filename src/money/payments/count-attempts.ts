import type { Log } from '../../base/runtime/log.ts'

/** What a run over many payments or payouts did. */
export interface Reconciliation {
  readonly looked: number
  readonly booked: number
  readonly mismatched: number
  /** Attempts without an answer of the provider. */
  readonly failed: number
}

/**
 * Runs the work of many payments or payouts, of which some may fail, and counts the results.
 *
 * @param failure the log message of a failed attempt
 * @param bookedResults the results of `attempt` that changed the books
 */
export function countAttempts<Result extends string>(
  log: Pick<Log, 'warn'>,
  failure: string,
  bookedResults: readonly Result[],
): { readonly counts: Reconciliation; attempt(what: object, work: () => Promise<Result>): Promise<void> } {
  const counts = { looked: 0, booked: 0, mismatched: 0, failed: 0 }
  return {
    counts,
    async attempt(what, work) {
      try {
        const result = await work()
        counts.looked++
        if (bookedResults.includes(result)) counts.booked++
        if (result === 'mismatch') counts.mismatched++
      } catch (error) {
        counts.failed++
        log.warn({ err: error, ...what }, failure)
      }
    },
  }
}
