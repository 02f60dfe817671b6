import {
  LATENCY_SAMPLE_AGE_MS_MAX,
  LATENCY_SAMPLES_MIN,
  type PredictedRequest,
  type SuccessSample,
} from '../../../base/domain/health.ts'
import { addCounts, aged, type LatencyCounts, msPerInputToken, quantileMs, type Sum } from './latency-counts.ts'
import type { LatencySums } from './latency-sums.ts'

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

const TAU_MS = 10_000
/** When the first content takes at least this part of the total time, the answer arrived in one piece. */
const WHOLE_AT_ONCE = 0.98
/** With fewer samples, the 95th percentile is only the slowest of them. */
const P95_SAMPLES_MIN = 20

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
