import { elementAt } from '../../base/runtime/collections.ts'
/** The lower median. Throws for an empty list. */
export function median(values: readonly number[]): number {
  return elementAt(
    values.toSorted((a, b) => a - b),
    (values.length - 1) >> 1,
  )
}

/** Multiplies two lists of the same length, element by element. */
export function multiply(values: readonly number[], factors: readonly number[]): number[] {
  return values.map((value, at) => value * elementAt(factors, at))
}

/** The standard deviation of normal values, from their median absolute deviation: outliers do not change it. */
export function robustDeviation(values: readonly number[]): number {
  const centre = median(values)
  return 1.4826 * median(values.map(value => Math.abs(value - centre)))
}

/** 95%, two-sided. */
const Z = 1.96

/**
 * Returns the lower 95% bound of a success rate (Wilson, 1927), 0..1. Few observations give a low bound: 20 successes
 * of 20 give 0.839. No observation gives 0.
 *
 * @param rate observed, 0..1
 * @param sample the number of independent observations; may be a fraction
 */
export function wilsonLowerBound(rate: number, sample: number): number {
  if (sample <= 0) return 0
  const z2 = Z * Z
  const centre = rate + z2 / (2 * sample)
  const spread = Z * Math.sqrt((rate * (1 - rate) + z2 / (4 * sample)) / sample)
  return Math.max(0, (centre - spread) / (1 + z2 / sample))
}
