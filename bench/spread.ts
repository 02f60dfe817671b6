import { percentile } from './percentile.ts'

export type Figure = number | null

function sorted(figures: Figure[]): number[] {
  return figures.filter(figure => figure !== null).sort((a, b) => a - b)
}

/** The median by nearest rank, so that it is a measured value; null without values. */
export function median(figures: Figure[]): Figure {
  const known = sorted(figures)
  return known.length === 0 ? null : percentile(known, 0.5)
}

/** Formats figures as "median (lowest to highest)". Empty without values. */
export function spread(figures: Figure[], digits: number): string {
  const known = sorted(figures)
  if (known.length === 0) return ''
  const text = (value: number) => value.toFixed(digits)
  const middle = text(percentile(known, 0.5))
  return known.length === 1 ? middle : `${middle} (${text(known[0]!)} to ${text(known.at(-1)!)})`
}
