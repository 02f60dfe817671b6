import { DAY_MS } from '../../base/domain/durations.ts'
import { wilsonLowerBound } from './statistics.ts'

/** Weighted counts of good and bad results. Old results count less: after seven days half. Immutable. */
export interface DecayedCounts {
  /** The sum of the weights. */
  readonly good: number
  readonly bad: number
  /** The sum of the squared weights, for the effective sample size. */
  readonly squares: number
  /** The time that the sums are decayed to, Unix ms. */
  readonly atMs: number
}

export const HALF_LIFE_MS = 7 * DAY_MS

/** A bad result weighs as much as two good ones: trust is lost faster than it is earned (Resnick and Sami, 2007). */
const BAD_WEIGHT = 2

export const noCounts: DecayedCounts = { good: 0, bad: 0, squares: 0, atMs: 0 }

/** Returns the sums as they count at a later time. An earlier time changes nothing. */
export function decayTo(counts: DecayedCounts, atMs: number): DecayedCounts {
  if (atMs <= counts.atMs) return counts
  const factor = 0.5 ** ((atMs - counts.atMs) / HALF_LIFE_MS)
  return { good: counts.good * factor, bad: counts.bad * factor, squares: counts.squares * factor * factor, atMs }
}

/** Adds results with the sums of their weights and of their squared weights, observed at `atMs`. */
export function addCounts(counts: DecayedCounts, added: DecayedCounts): DecayedCounts {
  const atMs = Math.max(counts.atMs, added.atMs)
  const [before, more] = [decayTo(counts, atMs), decayTo(added, atMs)]
  return {
    good: before.good + more.good,
    bad: before.bad + more.bad,
    squares: before.squares + more.squares,
    atMs,
  }
}

/** The share of good results, 0..1. Bad ones count twice. 1 without results. */
export function goodRate({ good, bad }: DecayedCounts): number {
  return good + bad === 0 ? 1 : good / (good + BAD_WEIGHT * bad)
}

/** The number of results of equal weight that would tell as much (Kish, 1965). */
export function effectiveSample({ good, bad, squares }: DecayedCounts): number {
  return squares === 0 ? 0 : (good + bad) ** 2 / squares
}

/** The lower 95% bound of the share of good results, 0..1. */
export function lowerBound(counts: DecayedCounts): number {
  return wilsonLowerBound(goodRate(counts), effectiveSample(counts))
}
