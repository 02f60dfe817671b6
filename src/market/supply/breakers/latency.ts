import {
  LATENCY_SAMPLE_AGE_MS_MAX,
  LATENCY_SAMPLES_MIN,
  type PredictedRequest,
  type SuccessSample,
} from '../../../base/domain/health.ts'

/** Measured latency of one offer. All times in milliseconds. */
export interface Latency {
  add(nowMs: number, sample: SuccessSample): void
  /**
   * Predicts the time to the first content of a stream, or to the whole answer. Null when fewer than five
   * samples are younger than ten minutes, on all nodes together.
   */
  predictMs(nowMs: number, request: PredictedRequest): number | null
  /** The time to the first token that 95% of the streams stay below, for a prompt of `inputTokens`. */
  firstTokenP95Ms(nowMs: number, inputTokens: number): number | null
  /** When the last sample was added; -Infinity without one. */
  readonly lastAtMs: number
  /** What this node has measured, for other nodes. Null without a sample. */
  counts(nowMs: number): LatencyCounts | null
  /** Replaces what other nodes have measured. It serves until this node has five samples of its own. */
  setOthers(nowMs: number, counts: LatencyCounts | null): void
}

/**
 * Keeps the time to the first token and the time per further token apart: a whole round trip depends more on
 * the length of the answer than on the server. Each is an average over about ten seconds that jumps to a peak
 * at once and falls slowly. The time to the first token grows with the prompt: what a line of best fit ascribes to
 * the prompt is taken off before the average and added to the prediction.
 */
export function createLatency(sums: LatencySums): Latency {
  const firstToken = peakAverage()
  const perToken = peakAverage()
  const whole = peakAverage()
  /** The last five sample times, as a ring. */
  const times = new Array<number>(LATENCY_SAMPLES_MIN).fill(-Infinity)
  let next = 0
  let lastAtMs = -Infinity
  let typicalOutput: number | null = null
  let others: { readonly counts: LatencyCounts; readonly atMs: number } | null = null

  const addFirst = (nowMs: number, firstTokenMs: number, inputTokens: number) => {
    firstToken.add(nowMs, Math.max(0, firstTokenMs - sums.msPerInputToken() * inputTokens))
    sums.addFirst(firstTokenMs, inputTokens)
  }
  const countsOf = (nowMs: number): LatencyCounts => {
    const agesMs = times.filter(Number.isFinite).map(time => nowMs - time)
    return { ...sums.counts(nowMs), agesMs: agesMs.sort((a, b) => a - b) }
  }
  /** The counts of this node and of the others. */
  const allCounts = (nowMs: number): LatencyCounts | null =>
    others === null ? null : addCounts([countsOf(nowMs), aged(others.counts, nowMs - others.atMs)])

  return {
    get lastAtMs() {
      return lastAtMs
    },

    add(nowMs, { firstTokenMs, totalMs, outputTokens, inputTokens = 0 }) {
      times[next] = nowMs
      next = (next + 1) % LATENCY_SAMPLES_MIN
      lastAtMs = nowMs
      sums.begin(nowMs)
      if (outputTokens !== undefined && outputTokens > 0) {
        typicalOutput = typicalOutput === null ? outputTokens : typicalOutput + (outputTokens - typicalOutput) / 10
        sums.addOutput(outputTokens)
      }
      if (totalMs === undefined) addFirst(nowMs, firstTokenMs, inputTokens)
      else if (firstTokenMs >= totalMs * WHOLE_AT_ONCE) {
        whole.add(nowMs, totalMs)
        sums.addWhole(totalMs)
      } else {
        addFirst(nowMs, firstTokenMs, inputTokens)
        if (outputTokens !== undefined && outputTokens > 1) {
          const eachMs = (totalMs - firstTokenMs) / (outputTokens - 1)
          perToken.add(nowMs, eachMs)
          sums.addPerToken(eachMs)
        }
      }
    },

    predictMs(nowMs, request) {
      // `next` points at the oldest of the five.
      if (times[next]! < nowMs - LATENCY_SAMPLE_AGE_MS_MAX) {
        const counts = allCounts(nowMs)
        return counts === null ? null : predictFromCounts(counts, request)
      }
      const { stream, outputTokens, inputTokens = sums.meanInputTokens() } = request
      const residual = firstToken.value(nowMs)
      const first = residual === null ? null : residual + sums.msPerInputToken() * inputTokens
      const each = perToken.value(nowMs)
      // Before any stream was measured, the time of a whole answer is the safe guess: the first token cannot
      // be later.
      if (stream) return first ?? whole.value(nowMs)
      if (first === null || each === null || typicalOutput === null) return whole.value(nowMs)
      return first + each * Math.max(0, Math.min(outputTokens ?? Infinity, typicalOutput) - 1)
    },

    firstTokenP95Ms(nowMs, inputTokens) {
      const counts = allCounts(nowMs)
      const residual =
        counts === null
          ? sums.quantileMs(nowMs, 0.95, P95_SAMPLES_MIN)
          : quantileMs(counts.buckets, 0.95, P95_SAMPLES_MIN)
      if (residual === null) return null
      return residual + (counts === null ? sums.msPerInputToken() : msPerInputToken(counts.first)) * inputTokens
    },

    counts: nowMs => (lastAtMs === -Infinity ? null : countsOf(nowMs)),
    setOthers(nowMs, counts) {
      others = counts === null ? null : { counts, atMs: nowMs }
    },
  }
}

/** When the first content takes at least this part of the total time, the answer arrived in one piece. */
const WHOLE_AT_ONCE = 0.98
/** With fewer samples, the 95th percentile is only the slowest of them. */
const P95_SAMPLES_MIN = 20

/** The counts of all nodes have no order of time, so their averages serve. */
function predictFromCounts(
  counts: LatencyCounts,
  { stream, outputTokens, inputTokens }: PredictedRequest,
): number | null {
  if ((counts.agesMs[LATENCY_SAMPLES_MIN - 1] ?? Infinity) > LATENCY_SAMPLE_AGE_MS_MAX) return null
  const { n, x, y } = counts.first
  const whole = mean(counts.whole)
  const first = n === 0 ? null : Math.max(0, y / n + msPerInputToken(counts.first) * ((inputTokens ?? x / n) - x / n))
  if (stream) return first ?? whole
  const each = mean(counts.perToken)
  const output = mean(counts.output)
  if (first === null || each === null || output === null) return whole
  return first + each * Math.max(0, Math.min(outputTokens ?? Infinity, output) - 1)
}

const mean = ({ n, sum }: Sum) => (n === 0 ? null : sum / n)

function peakAverage() {
  let average: number | null = null
  let atMs = 0
  return {
    add(nowMs: number, sample: number) {
      const keep = Math.exp(-(nowMs - atMs) / TAU_MS)
      average = average === null || sample > average ? sample : average * keep + sample * (1 - keep)
      atMs = nowMs
    },
    // Ignore an old average: all recent samples may be of the other kind (streams or whole answers). Without this
    // check, an old average stayed in use as long as samples of the other kind arrived.
    value: (nowMs: number) => (nowMs - atMs > LATENCY_SAMPLE_AGE_MS_MAX ? null : average),
  }
}

/** The weight of a sample in an average falls to 1/e in this time. */
const TAU_MS = 10_000

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

  // Places in `sums` are constants below SUMS.
  const sumAt = (at: number) => sums[at]!
  const addAt = (at: number, value: number) => {
    sums[at]! += value
  }
  const scale = (factor: number) => {
    for (const [at, sum] of sums.entries()) sums[at] = sum * factor
    if (buckets !== null) for (const [at, count] of buckets.entries()) buckets[at] = count * factor
  }
  const add = (at: number, value: number) => {
    addAt(at, weight)
    addAt(at + 1, weight * value)
  }
  const keepAt = (nowMs: number) => Math.exp(-(nowMs - originMs) / COUNTS_TAU_MS)
  const firstOf = (keep: number) => ({
    n: sumAt(FIRST) * keep,
    x: sumAt(FIRST + 1) * keep,
    y: sumAt(FIRST + 2) * keep,
    xx: sumAt(FIRST + 3) * keep,
    xy: sumAt(FIRST + 4) * keep,
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
      addAt(FIRST, weight)
      addAt(FIRST + 1, weight * inputTokens)
      addAt(FIRST + 2, weight * firstTokenMs)
      addAt(FIRST + 3, weight * inputTokens * inputTokens)
      addAt(FIRST + 4, weight * inputTokens * firstTokenMs)
      if (--untilFit > 0) return
      untilFit = FIT_EVERY
      slope = msPerInputToken(firstOf(1 / weight))
    },
    addPerToken: ms => add(PER_TOKEN, ms),
    addWhole: ms => add(WHOLE, ms),
    addOutput: tokens => add(OUTPUT, tokens),
    msPerInputToken: () => slope,
    meanInputTokens: () => (sumAt(FIRST) === 0 ? 0 : sumAt(FIRST + 1) / sumAt(FIRST)),
    quantileMs(nowMs, quantile, samplesMin) {
      if (buckets === null) return null
      return quantileMs(buckets, quantile, samplesMin / keepAt(nowMs))
    },
    counts(nowMs) {
      const keep = keepAt(nowMs)
      const countAndSum = (at: number) => ({ n: sumAt(at) * keep, sum: sumAt(at + 1) * keep })
      return {
        first: firstOf(keep),
        perToken: countAndSum(PER_TOKEN),
        whole: countAndSum(WHOLE),
        output: countAndSum(OUTPUT),
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

/** Weights fall to 1/e in this time. */
export const COUNTS_TAU_MS = 300_000

/** Weights have then grown e^10 = 22,000 times. */
const REBASE_AFTER_MS = 10 * COUNTS_TAU_MS

/**
 * What was measured of one offer, as sums and counts, so that those of several nodes can be added. Weights fall with
 * the age of a sample (e^-1 after five minutes).
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

const BUCKETS_PER_OCTAVE = 4
/** The last bucket has all above two minutes. */
export const BUCKETS = 17 * BUCKETS_PER_OCTAVE + 1

/** Returns the bucket of a time, as in an HDR histogram: four for each doubling, so its error is below 19%. */
export function bucketOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(BUCKETS - 1, Math.ceil(Math.log2(ms) * BUCKETS_PER_OCTAVE))
}

/** Returns the upper end of the bucket in which the quantile lies, ms; null without enough samples. */
export function quantileMs(buckets: Iterable<number>, quantile: number, samplesMin: number): number | null {
  let total = 0
  for (const count of buckets) total += count
  if (total === 0 || total < samplesMin) return null
  let bucket = -1
  let below = 0
  for (const count of buckets) {
    bucket++
    below += count
    if (below >= total * quantile) break
  }
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
      .slice(0, LATENCY_SAMPLES_MIN),
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
