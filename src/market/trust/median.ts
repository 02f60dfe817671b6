/** The lower median. Throws for an empty list. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('the median of nothing')
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1]!
}

/** The standard deviation of normal values, from their median absolute deviation: outliers do not change it. */
export function robustDeviation(values: readonly number[]): number {
  const centre = median(values)
  return 1.4826 * median(values.map(value => Math.abs(value - centre)))
}
