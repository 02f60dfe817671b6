/**
 * A sequential test of one signal of one hoster. The null hypothesis is that the hoster is honest, at every audit. The
 * alternative is that it cheats from some audit on: from the first, or after it has earned trust.
 *
 * Each audit gives an e-value: a number with an expectation of at most 1 if the hoster is honest, such as a likelihood
 * ratio. The test mixes the products of the e-values from every possible start on. The mixture is again an e-value
 * at every moment, so by Ville's inequality an honest hoster reaches 1/p with a probability of at most p over its
 * whole life, however often the test is read. A fixed test that is repeated has no such bound.
 */
export interface ChangeEvidence {
  /** The sum over past starts of weight x product of the e-values since. */
  readonly started: number
  /** Audits so far. */
  readonly seen: number
  /** The smallest p-value reached so far. */
  readonly p: number
}

export const noEvidence: ChangeEvidence = { started: 0, seen: 0, p: 1 }

/**
 * A product is not reduced below this fraction of the weight of its start: sums near zero would be lost in rounding. It
 * is far below every threshold.
 */
const SUM_MIN = 1e-300
/** Products beyond this are proof enough, and must not become infinite. */
const SUM_MAX = 1e300

/** Adds the e-value of one audit. */
export function addEvidence(evidence: ChangeEvidence, eValue: number): ChangeEvidence {
  const seen = evidence.seen + 1
  const start = startsAfter(seen - 1) - startsAfter(seen)
  const started = Math.min(SUM_MAX, Math.max(SUM_MIN, (evidence.started + start) * eValue))
  const total = started + startsAfter(seen)
  return { started, seen, p: Math.min(evidence.p, 1 / Math.max(total, 1)) }
}

/**
 * The prior probability that a cheat has not started after `audits`. It falls slowly, so a late start is found almost as
 * fast as an early one: after 1,000 audits, the weight of a start costs ln(1/weight) = 11 nats of evidence.
 */
function startsAfter(audits: number): number {
  return Math.LN2 / Math.log(audits + 2)
}
