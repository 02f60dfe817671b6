import { LATENCY_SAMPLE_AGE_MS_MAX, LATENCY_SAMPLES_MIN, type SuccessSample } from '../../domain/health.ts'

/** How fast one offer answers. All times in milliseconds. */
export interface Latency {
  add(nowMs: number, sample: SuccessSample): void
  /** Time to the first content of a stream, or to the whole answer; null when fewer than five samples are younger than ten minutes. */
  predictMs(nowMs: number, request: { stream: boolean; outputTokens: number | null }): number | null
}

/**
 * The first token's time and the time per further token are kept apart: a whole round trip says more about the length of the
 * answer than about the server. Each is an average over about ten seconds that rises at once to a peak and sinks slowly.
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
      // Without any stream seen, the whole answer's time is the safe guess: the first token cannot be later.
      if (stream) return first ?? whole.value(nowMs)
      if (first === null || each === null || typicalOutput === null) return whole.value(nowMs)
      return first + each * Math.max(0, Math.min(outputTokens ?? Infinity, typicalOutput) - 1)
    },
  }
}

const TAU_MS = 10_000
/** An answer that came in one piece has its first content at its end. */
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
    // The samples that are young enough may all be of the other kind: five slow streams told of whole answers for ever.
    value: (nowMs: number) => (nowMs - atMs > LATENCY_SAMPLE_AGE_MS_MAX ? null : average),
  }
}
