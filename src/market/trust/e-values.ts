/**
 * Returns the e-values of a sum that is normal, or has lighter tails, with a mean of at most `meanMax` for an honest
 * hoster: one for each alternative. One-sided: values below the mean reduce them.
 *
 * @param value what was observed
 * @param sd the standard deviation of an honest value
 * @param alternatives the means of cheats to look for, all above `meanMax`
 */
export function shiftEValues(
  value: number,
  { meanMax, sd, alternatives }: { meanMax: number; sd: number; alternatives: readonly number[] },
): number[] {
  return alternatives.map(alternative => {
    const slope = (alternative - meanMax) / (sd * sd)
    return Math.exp(slope * (value - meanMax) - (slope * slope * sd * sd) / 2)
  })
}

/**
 * Returns the e-values of a result that an honest hoster fails with a probability of at most `failureMax`. The
 * alternatives are shares of answers by another model, each of which fails with `CHEAP_MODEL_FAILURE`.
 */
export function failureEValues(hasFailed: boolean, failureMax: number): number[] {
  return cheatShares.map(share => {
    const failure = Math.max(failureMax, (1 - share) * failureMax + share * CHEAP_MODEL_FAILURE)
    return hasFailed ? failure / failureMax : (1 - failure) / (1 - failureMax)
  })
}

/**
 * Returns the e-values of a p-value: of a rank among honest results, or of a permutation test. The alternatives are a
 * share of answers by another model, each of which has a p-value in the lowest tenth, hundredth or thousandth.
 *
 * @param values how many honest results the p-value is a rank among: it cannot be below 1/(values + 1), so lower
 *   levels wait there
 */
export function extremeEValues(p: number, values: number): number[] {
  return levels.flatMap(wanted => {
    const level = Math.max(wanted, 1 / (values + 1))
    // With few values the ranks say little about the tail, and nothing is bet on them.
    const extreme = values < VALUES_MIN ? 1 : p <= level ? 1 / level : 0
    return cheatShares.map(share => 1 - share + share * extreme)
  })
}

const levels = [0.1, 0.01, 0.001]
const VALUES_MIN = 9

/** The shares of requests that a cheat may affect. */
const cheatShares = [0.08, 0.3, 0.8]

/**
 * A small model fails about half of the canaries that its large sibling answers. The guarantee of the test does not
 * depend on it, only its power does.
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
