/**
 * What was measured of one offer, as sums and counts, so that those of several nodes can be added. Weights fall with
 * the age of a sample (e^-1 after five minutes), and `factor` brings them to a common moment.
 */
export interface LatencyCounts {
  /** Time to the first token `y` (ms) against the length of the prompt `x` (tokens): sums of a line of best fit. */
  readonly first: {
    readonly n: number
    readonly x: number
    readonly y: number
    readonly xx: number
    readonly xy: number
  }
  /** Time per further token, ms. */
  readonly perToken: Sum
  /** Time of whole answers, ms. */
  readonly whole: Sum
  /** Output tokens of answers. */
  readonly output: Sum
  /** Times to the first token without the part of the prompt, by `bucketOf`. */
  readonly buckets: readonly number[]
  /** The ages of the last five samples, ms, ascending. */
  readonly agesMs: readonly number[]
}

export interface Sum {
  readonly n: number
  readonly sum: number
}

/** Weights fall to 1/e in this time. */
export const COUNTS_TAU_MS = 300_000

const BUCKETS_PER_OCTAVE = 4
/** The last bucket has all above two minutes. */
export const BUCKETS = 17 * BUCKETS_PER_OCTAVE + 1

/** Returns the bucket of a time, as in an HDR histogram: four for each doubling, so its error is below 19%. */
export function bucketOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(BUCKETS - 1, Math.ceil(Math.log2(ms) * BUCKETS_PER_OCTAVE))
}

/** Returns the upper end of the bucket in which the quantile lies, ms; null without enough samples. */
export function quantileMs(buckets: ArrayLike<number>, quantile: number, samplesMin: number): number | null {
  let total = 0
  for (let bucket = 0; bucket < buckets.length; bucket++) total += buckets[bucket]!
  if (total === 0 || total < samplesMin) return null
  let bucket = 0
  for (let below = buckets[0]!; below < total * quantile && bucket < buckets.length - 1; ) below += buckets[++bucket]!
  return 2 ** (bucket / BUCKETS_PER_OCTAVE)
}

/** Returns the milliseconds that each token of a prompt adds; 0 when the samples do not show it. */
export function msPerInputToken({ n, x, y, xx, xy }: LatencyCounts['first']): number {
  if (n < FIT_SAMPLES_MIN) return 0
  const variance = xx / n - (x / n) ** 2
  // Prompts of nearly the same length say nothing about the slope.
  if (variance < FIT_TOKENS_SPREAD_MIN ** 2) return 0
  return Math.max(0, (xy / n - (x / n) * (y / n)) / variance)
}

const FIT_SAMPLES_MIN = 10
const FIT_TOKENS_SPREAD_MIN = 50

/** Adds the counts of several nodes. Their weights must belong to the same moment. */
export function addCounts(all: readonly LatencyCounts[]): LatencyCounts {
  const sum = (value: (counts: LatencyCounts) => number) => all.reduce((total, counts) => total + value(counts), 0)
  const sumOf = (name: 'perToken' | 'whole' | 'output') => ({ n: sum(c => c[name].n), sum: sum(c => c[name].sum) })
  return {
    first: {
      n: sum(c => c.first.n),
      x: sum(c => c.first.x),
      y: sum(c => c.first.y),
      xx: sum(c => c.first.xx),
      xy: sum(c => c.first.xy),
    },
    perToken: sumOf('perToken'),
    whole: sumOf('whole'),
    output: sumOf('output'),
    buckets: Array.from({ length: BUCKETS }, (_, bucket) => sum(c => c.buckets[bucket] ?? 0)),
    agesMs: all
      .flatMap(counts => counts.agesMs)
      .sort((a, b) => a - b)
      .slice(0, 5),
  }
}

/** Returns the counts as they are `ms` later. */
export function aged(counts: LatencyCounts, ms: number): LatencyCounts {
  const keep = Math.exp(-ms / COUNTS_TAU_MS)
  const kept = ({ n, sum }: Sum) => ({ n: n * keep, sum: sum * keep })
  const { n, x, y, xx, xy } = counts.first
  return {
    first: { n: n * keep, x: x * keep, y: y * keep, xx: xx * keep, xy: xy * keep },
    perToken: kept(counts.perToken),
    whole: kept(counts.whole),
    output: kept(counts.output),
    buckets: counts.buckets.map(count => count * keep),
    agesMs: counts.agesMs.map(age => age + ms),
  }
}
