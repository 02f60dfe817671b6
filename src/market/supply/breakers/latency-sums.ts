import { BUCKETS, bucketOf, COUNTS_TAU_MS, type LatencyCounts, msPerInputToken, quantileMs } from './latency-counts.ts'

/** The sums of one node. Call `begin` with the time of a sample before adding its parts. */
export interface LatencySums {
  begin(nowMs: number): void
  addFirst(firstTokenMs: number, inputTokens: number): void
  addPerToken(ms: number): void
  addWhole(ms: number): void
  addOutput(tokens: number): void
  msPerInputToken(): number
  meanInputTokens(): number
  quantileMs(nowMs: number, quantile: number, samplesMin: number): number | null
  counts(nowMs: number): Omit<LatencyCounts, 'agesMs'>
}

/**
 * Adds with weights that grow with time instead of shrinking all sums at each sample (forward decay, Cormode et al.,
 * 2009): one exponential a sample. The sums are brought down when the weights become large.
 */
export function createLatencySums(): LatencySums {
  const sums = new Float64Array(SUMS)
  /** Created with the first stream: most records, such as those of single customers, have none. */
  let buckets: Float64Array | null = null
  let originMs = 0
  let weight = 1
  let slope = 0
  let untilFit = 0

  const scale = (factor: number) => {
    for (let at = 0; at < SUMS; at++) sums[at]! *= factor
    if (buckets !== null) for (let at = 0; at < BUCKETS; at++) buckets[at]! *= factor
  }
  const add = (at: number, value: number) => {
    sums[at]! += weight
    sums[at + 1]! += weight * value
  }
  const keepAt = (nowMs: number) => Math.exp(-(nowMs - originMs) / COUNTS_TAU_MS)
  const firstOf = (keep: number) => ({
    n: sums[FIRST]! * keep,
    x: sums[FIRST + 1]! * keep,
    y: sums[FIRST + 2]! * keep,
    xx: sums[FIRST + 3]! * keep,
    xy: sums[FIRST + 4]! * keep,
  })

  return {
    begin(nowMs) {
      if (nowMs - originMs > REBASE_AFTER_MS) {
        scale(keepAt(nowMs))
        originMs = nowMs
      }
      weight = 1 / keepAt(nowMs)
    },
    addFirst(firstTokenMs, inputTokens) {
      buckets ??= new Float64Array(BUCKETS)
      buckets[bucketOf(firstTokenMs - slope * inputTokens)]! += weight
      sums[FIRST]! += weight
      sums[FIRST + 1]! += weight * inputTokens
      sums[FIRST + 2]! += weight * firstTokenMs
      sums[FIRST + 3]! += weight * inputTokens * inputTokens
      sums[FIRST + 4]! += weight * inputTokens * firstTokenMs
      if (--untilFit > 0) return
      untilFit = FIT_EVERY
      slope = msPerInputToken(firstOf(1 / weight))
    },
    addPerToken: ms => add(PER_TOKEN, ms),
    addWhole: ms => add(WHOLE, ms),
    addOutput: tokens => add(OUTPUT, tokens),
    msPerInputToken: () => slope,
    meanInputTokens: () => (sums[FIRST]! === 0 ? 0 : sums[FIRST + 1]! / sums[FIRST]!),
    quantileMs(nowMs, quantile, samplesMin) {
      if (buckets === null) return null
      return quantileMs(buckets, quantile, samplesMin / keepAt(nowMs))
    },
    counts(nowMs) {
      const keep = keepAt(nowMs)
      const sumAt = (at: number) => ({ n: sums[at]! * keep, sum: sums[at + 1]! * keep })
      return {
        first: firstOf(keep),
        perToken: sumAt(PER_TOKEN),
        whole: sumAt(WHOLE),
        output: sumAt(OUTPUT),
        buckets: buckets === null ? [] : Array.from(buckets, count => count * keep),
      }
    },
  }
}

/** Where the sums are: five of the line of best fit, then pairs of count and sum. */
const FIRST = 0
const PER_TOKEN = 5
const WHOLE = 7
const OUTPUT = 9
const SUMS = 11
/** The line changes slowly, and fitting it costs more than a sample. */
const FIT_EVERY = 16
/** Weights have then grown e^10 = 22,000 times. */
const REBASE_AFTER_MS = 10 * COUNTS_TAU_MS
