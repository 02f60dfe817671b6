import { failureEValues } from './e-values.ts'
import { multiply } from './statistics.ts'

/** How often honest servers of a model fail the canaries of one family. */
export interface CanaryRecord {
  readonly asked: number
  readonly failed: number
}

/** Canaries of a family that the model answers less often than this decide no audit. */
const FAILURE_MAX = 0.1
/** The record of other servers must have this many canaries. */
const ASKED_MIN = 20
/** An audit ends with the second failure of at most three canaries: one failed canary proves nothing. */
export const TRIES_MAX = 3
const FAILURES_TO_FAIL = 2

export interface CanaryResult {
  /** One for each alternative of the test. */
  readonly eValues: readonly number[]
  /** Null: the model is not known well enough to judge a failure. */
  readonly hasPassed: boolean | null
}

/**
 * Judges the answers to up to three canaries in a row.
 *
 * @param answered whether each canary was answered, in order
 * @param others the record of other servers of the same model in this family: hosters and references, without this hoster
 */
export function auditCanaries(answered: readonly boolean[], others: CanaryRecord): CanaryResult {
  const failureMax = failureBound(others)
  const ones = failureEValues(false, failureMax).map(() => 1)
  const each = failureMax < 1 ? answered.map(isAnswered => failureEValues(!isAnswered, failureMax)) : []
  const eValues = each.reduce(multiply, ones)
  const failures = answered.filter(isAnswered => !isAnswered).length
  if (failures < FAILURES_TO_FAIL) return { eValues, hasPassed: true }
  const isKnown = others.asked >= ASKED_MIN && failureMax <= FAILURE_MAX * 2
  return { eValues, hasPassed: isKnown ? false : null }
}

/** Whether another canary is needed to decide. */
export function needsAnotherCanary(answered: readonly boolean[]): boolean {
  const failures = answered.filter(isAnswered => !isAnswered).length
  return failures > 0 && failures < FAILURES_TO_FAIL && answered.length < TRIES_MAX
}

/**
 * Returns the highest failure rate that an honest server may have: the upper 95% bound of the others' rate, and never
 * below 3%, since honest servers differ by quantization. 1 while too little is known: then no failure is evidence.
 */
export function failureBound({ asked, failed }: CanaryRecord): number {
  if (asked < ASKED_MIN) return 1
  const rate = (failed + 1) / (asked + 2)
  return Math.min(1, Math.max(0.03, rate + 1.64 * Math.sqrt((rate * (1 - rate)) / asked)))
}
