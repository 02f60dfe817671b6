import { type ConcurrencyLimits, OTHERS_AGE_MS_MAX } from '../../../base/domain/health.ts'
import type { OfferRecord } from './offer-record.ts'

/** Returns the part of its usual traffic that an offer should get: see `OfferReading.share`. */
export function shareOf(record: OfferRecord, { isLearned, capacity }: ConcurrencyLimits, nowMs: number): number {
  if (isLearned && record.inFlight >= record.concurrency.limit) return 0
  if (capacity !== undefined && inFlightOf(record, nowMs) >= capacity) return 0
  return isStalled(record, nowMs) ? 0 : slowStartShare(record, nowMs)
}

/** The attempts in flight at this node, and at the others as far as they have reported them. */
function inFlightOf({ inFlight, others }: OfferRecord, nowMs: number): number {
  return others.atMs > nowMs - OTHERS_AGE_MS_MAX ? inFlight + others.inFlight : inFlight
}

/**
 * The part of its usual traffic that an offer gets in the minute after its trial. A server that has just come back
 * may have cold caches, and all nodes would return to it at once.
 */
function slowStartShare({ restoredAtMs }: OfferRecord, nowMs: number): number {
  const sinceMs = nowMs - restoredAtMs
  return sinceMs >= SLOW_START_MS ? 1 : SLOW_START_SHARE + (1 - SLOW_START_SHARE) * (sinceMs / SLOW_START_MS)
}

const SLOW_START_MS = 60_000
const SLOW_START_SHARE = 0.1

/**
 * Whether requests wait at the server and none is answered. A server that accepts requests and never answers would
 * otherwise get more of them until the first times out, which takes minutes for an answer that is not streamed.
 */
function isStalled(record: OfferRecord, nowMs: number): boolean {
  if (record.waiting < STALLED_REQUESTS_MIN) return false
  const silentMs = nowMs - record.lastAnswerMs
  if (silentMs < STALLED_MS_MIN) return false
  const usualMs = record.latency.predictMs(nowMs, ANY_WHOLE_ANSWER) ?? 0
  return silentMs > Math.min(STALLED_MS_MAX, usualMs * STALLED_TIMES_USUAL)
}

const ANY_WHOLE_ANSWER = { stream: false, outputTokens: null } as const
const STALLED_REQUESTS_MIN = 3
const STALLED_MS_MIN = 5_000
const STALLED_MS_MAX = 60_000
const STALLED_TIMES_USUAL = 3
