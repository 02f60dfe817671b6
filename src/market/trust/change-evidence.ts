import { elementAt } from '../../base/runtime/collections.ts'
/**
 * A sequential test of one signal of one hoster. The null hypothesis is that the hoster is honest, at every audit. The
 * alternatives are several cheats, each from some audit on: from the first, or after it has earned trust.
 *
 * Each audit gives an e-value for each alternative: a number with an expectation of at most 1 if the hoster is honest,
 * such as a likelihood ratio. The test mixes, over alternatives and starts, the products of the e-values since the
 * start. The mixture is again an e-value at every moment, so by Ville's inequality an honest hoster reaches 1/p with a
 * probability of at most p over its whole life, however often the test is read. A fixed test that is repeated has no
 * such bound.
 */
export interface ChangeEvidence {
  /** For each alternative, the sum over past starts of weight x product of its e-values since. */
  readonly started: readonly number[]
  /** Audits so far. */
  readonly seen: number
  /** The smallest p-value reached so far. */
  readonly p: number
}

export const noEvidence: ChangeEvidence = { started: [], seen: 0, p: 1 }

/**
 * A product is not reduced below this fraction of the weight of its start: sums near zero would be lost in rounding. It
 * is far below every threshold.
 */
const SUM_MIN = 1e-300
/** Products beyond this are proof enough, and must not become infinite. */
const SUM_MAX = 1e300

/**
 * Adds the e-values of one audit, one for each alternative.
 *
 * The products are mixed, not the e-values: a mean of e-values inside the product bets on all alternatives at each
 * audit and loses against every single one. The mixture loses only ln(number of alternatives) once, against the best
 * one.
 */
export function addEvidence(evidence: ChangeEvidence, eValues: readonly number[]): ChangeEvidence {
  const seen = evidence.seen + 1
  const start = startsAfter(seen - 1) - startsAfter(seen)
  const started = eValues.map((eValue, at) =>
    Math.min(SUM_MAX, Math.max(SUM_MIN, (startedOf(evidence, at, eValues.length) + start) * eValue)),
  )
  const total = mean(started) + startsAfter(seen)
  return { started, seen, p: Math.min(evidence.p, 1 / Math.max(total, 1)) }
}

/** Evidence that was collected with other alternatives counts for each of the present ones. */
function startedOf({ started }: ChangeEvidence, at: number, alternatives: number): number {
  if (started.length === alternatives) return elementAt(started, at)
  return started.length === 0 ? 0 : mean(started)
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/**
 * The prior probability that a cheat has not started after `audits`. It falls slowly, so a late start is found almost
 * as fast as an early one: after 1,000 audits, the weight of a start costs ln(1/weight) = 11 nats of evidence.
 */
function startsAfter(audits: number): number {
  return Math.LN2 / Math.log(audits + 2)
}
