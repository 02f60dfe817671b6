import { LATENCY_SAMPLE_AGE_MS_MAX, LATENCY_SAMPLES_MIN, type SuccessSample } from '../../domain/health.ts'

/** Measured latency of one offer. All times in milliseconds. */
export interface Latency {
  add(nowMs: number, sample: SuccessSample): void
  /**
   * Predicts the time to the first content of a stream, or to the whole answer. Null when fewer than five
   * samples are younger than ten minutes.
   */
  predictMs(nowMs: number, request: { stream: boolean; outputTokens: number | null }): number | null
}

/**
 * Keeps the time to the first token and the time per further token apart: a whole round trip depends more on
 * the length of the answer than on the server. Each is an average over about ten seconds that jumps to a peak
 * at once and falls slowly.
 */
export function createLatency(): Latency {
  const firstToken = peakAverage()
  const perToken = peakAverage()
  const whole = peakAverage()
  /** The last five sample times, as a ring. */
  const times = new Array<number>(LATENCY_SAMPLES_MIN).fill(-Infinity)
  let next = 0
  let typicalOutput: number | null = null

  return {
    add(nowMs, { firstTokenMs, totalMs, outputTokens }) {
      times[next] = nowMs
      next = (next + 1) % LATENCY_SAMPLES_MIN
      if (outputTokens !== undefined && outputTokens > 0) {
        typicalOutput = typicalOutput === null ? outputTokens : typicalOutput + (outputTokens - typicalOutput) / 10
      }
      if (totalMs === undefined) firstToken.add(nowMs, firstTokenMs)
      else if (firstTokenMs >= totalMs * WHOLE_AT_ONCE) whole.add(nowMs, totalMs)
      else {
        firstToken.add(nowMs, firstTokenMs)
        if (outputTokens !== undefined && outputTokens > 1)
          perToken.add(nowMs, (totalMs - firstTokenMs) / (outputTokens - 1))
      }
    },

    predictMs(nowMs, { stream, outputTokens }) {
      // `next` points at the oldest of the five.
      if (times[next]! < nowMs - LATENCY_SAMPLE_AGE_MS_MAX) return null
      const first = firstToken.value(nowMs)
      const each = perToken.value(nowMs)
      // Before any stream was measured, the time of a whole answer is the safe guess: the first token cannot
      // be later.
      if (stream) return first ?? whole.value(nowMs)
      if (first === null || each === null || typicalOutput === null) return whole.value(nowMs)
      return first + each * Math.max(0, Math.min(outputTokens ?? Infinity, typicalOutput) - 1)
    },
  }
}

const TAU_MS = 10_000
/** When the first content takes at least this part of the total time, the answer arrived in one piece. */
const WHOLE_AT_ONCE = 0.98

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
