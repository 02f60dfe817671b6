/**
 * Returns the e-value of a sum that is normal, or has lighter tails, with a mean of at most `meanMax` for an honest
 * hoster. One-sided: values below the mean reduce it.
 *
 * @param value what was observed
 * @param sd the standard deviation of an honest value
 * @param alternatives the means of cheats to look for, all above `meanMax`; their likelihood ratios are averaged
 */
export function shiftEValue(
  value: number,
  { meanMax, sd, alternatives }: { meanMax: number; sd: number; alternatives: readonly number[] },
): number {
  let sum = 0
  for (const mean of alternatives) {
    const slope = (mean - meanMax) / (sd * sd)
    sum += Math.exp(slope * (value - meanMax) - (slope * slope * sd * sd) / 2)
  }
  return sum / alternatives.length
}

/**
 * Returns the e-value of a result that an honest hoster fails with a probability of at most `failureMax`. The alternatives
 * are a share of answers by another model, each of which fails with `CHEAP_MODEL_FAILURE`.
 */
export function failureEValue(hasFailed: boolean, failureMax: number): number {
  let sum = 0
  for (const share of cheatShares) {
    const failure = Math.max(failureMax, (1 - share) * failureMax + share * CHEAP_MODEL_FAILURE)
    sum += hasFailed ? failure / failureMax : (1 - failure) / (1 - failureMax)
  }
  return sum / cheatShares.length
}

/**
 * Returns the e-value of a p-value: of a rank among honest results, or of a permutation test. The alternatives are a share
 * of answers by another model, each of which has a p-value in the lowest tenth, or the lowest hundredth. The tenth tells
 * something after nine honest results, the hundredth after 99.
 */
export function extremeEValue(p: number): number {
  const extreme = ((p <= 0.1 ? 1 / 0.1 : 0) + (p <= 0.01 ? 1 / 0.01 : 0)) / 2
  let sum = 0
  for (const share of cheatShares) sum += 1 - share + share * extreme
  return sum / cheatShares.length
}

/** The shares of requests that a cheat may affect. */
const cheatShares = [0.08, 0.3, 0.8]

/**
 * A small model fails about half of the canaries that its large sibling answers. The guarantee of the test does not depend
 * on it, only its power does.
 */
const CHEAP_MODEL_FAILURE = 0.5

/**
 * Returns the p-value of `value` among values of honest hosters: the part of them, with itself, that are as large.
 * Exact if all are exchangeable.
 */
export function rankPValue(value: number, honest: readonly number[]): number {
  let asLarge = 1
  for (const other of honest) if (other >= value) asLarge++
  return asLarge / (honest.length + 1)
}
