import type { AttemptOutcome } from '../../base/domain/handoff.ts'
import type { CustomerEvidence } from './customer-evidence.ts'

/** The requests of one customer at one hoster, in one span of time. */
export interface RequestTally {
  /** Answered requests. */
  readonly good: number
  /** The sums over answered requests of weight and squared weight. A weight is the charge in microdollars + 1. */
  readonly weight: number
  readonly squares: number
  readonly faults: number
  /**
   * Answers without usage, longer than `max_tokens` or with the name of another model, and answers that could not be
   * read.
   */
  readonly violations: number
}

/**
 * Converts a tally to evidence. A failed request costs nothing, so it weighs as much as a typical answered one.
 *
 * @param typicalWeight the mean weight of the hoster's answered requests
 */
export function tallyEvidence(tally: RequestTally, typicalWeight: number, atMs: number): CustomerEvidence {
  const { good, weight, squares, faults, violations } = tally
  const part = good === 0 ? 0 : Math.max(0, good - violations) / good
  return {
    reliability: {
      good: weight,
      bad: faults * typicalWeight,
      squares: squares + faults * typicalWeight ** 2,
      atMs,
    },
    conformance: {
      good: weight * part,
      bad: violations * typicalWeight,
      squares: squares * part + violations * typicalWeight ** 2,
      atMs,
    },
  }
}

/**
 * Attempts that are the fault of the hoster. A busy server, a rejected prompt, a rejected credential of ours and
 * attempts that the client or the gateway ended are not.
 */
export const faultOutcomes: readonly AttemptOutcome[] = [
  'connect_failed',
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
]
