import { type ConcurrencyLimits, type OfferState, OTHERS_AGE_MS_MAX } from '../../../base/domain/health.ts'
import { createLatency, createLatencySums, type Latency } from './latency.ts'

/** The health of one offer on this node. All times are monotonic milliseconds. */
export interface OfferRecord {
  /** The offer was ejected and has not had enough successes since. */
  onTrial: boolean
  /** When the last ejection began. */
  ejectedAtMs: number
  openSinceMs: number
  ejectedUntilMs: number
  /** One request is trying the offer after its ejection. */
  probing: boolean
  successesToPass: number
  /** Earlier ejections that are not forgiven yet: the k of 5 s x 2^k. */
  ejections: number
  failuresInRow: number
  connectFailuresInRow: number
  /** A busy server is not failing, so its pauses are kept apart from the breaker. */
  pausedUntilMs: number
  /** When the last pause began. */
  pausedAtMs: number
  pausesInRow: number
  /** When the pause began that a server asked another node for; null: the pause is of this node, or there is none. */
  adoptedPauseMs: number | null
  inFlight: number
  /** Of these, the requests that have got no content yet. */
  waiting: number
  /** When the server last answered, or when the first of the waiting requests began. */
  lastAnswerMs: number
  /** When the newest request that succeeded was sent. */
  lastSuccessSentMs: number
  /** When the last ejection ended with a trial. Slow start begins here. */
  restoredAtMs: number
  readonly concurrency: Concurrency
  /** The ejection was taken from another node: this node has met no fault. */
  isAdopted: boolean
  /** What the other nodes report, and when this node read it. */
  others: { readonly atMs: number; readonly inFlight: number; readonly successes: number; readonly failures: number }
  /** Changed since the other nodes were last informed. */
  hasChanged: boolean
  touchedMs: number
  /** The last minute in slices, newest last. */
  buckets: { startMs: number; successes: number; failures: number }[]
  readonly latency: Latency
  /** Attempts that were answered since the record was created: the place in `recentMs`. */
  answered: number
  /** The first-token times of the last answers, ms, as a ring. For reports only. */
  readonly recentMs: number[]
}

/** How many first-token times a record keeps. A power of two: see `recordSuccess`. */
export const RECENT_MAX = 32

/** Returns the record of an offer that was never tried: open and unmeasured. */
export function newOfferRecord(nowMs: number): OfferRecord {
  return {
    onTrial: false,
    ejectedAtMs: nowMs,
    openSinceMs: nowMs,
    ejectedUntilMs: 0,
    probing: false,
    successesToPass: SUCCESSES_TO_PASS,
    ejections: 0,
    failuresInRow: 0,
    connectFailuresInRow: 0,
    pausedUntilMs: 0,
    pausedAtMs: -Infinity,
    pausesInRow: 0,
    adoptedPauseMs: null,
    inFlight: 0,
    waiting: 0,
    lastAnswerMs: nowMs,
    lastSuccessSentMs: -Infinity,
    restoredAtMs: -Infinity,
    concurrency: newConcurrency(),
    isAdopted: false,
    others: NO_OTHERS,
    hasChanged: false,
    touchedMs: nowMs,
    buckets: [],
    latency: createLatency(createLatencySums()),
    answered: 0,
    recentMs: [],
  }
}

/** No other node has reported the offer. */
export const NO_OTHERS: OfferRecord['others'] = { atMs: -Infinity, inFlight: 0, successes: 0, failures: 0 }

export function stateOf(record: OfferRecord, nowMs: number): OfferState {
  if (record.pausedUntilMs > nowMs || record.ejectedUntilMs > nowMs) return 'ejected'
  if (!record.onTrial) return 'open'
  return record.probing ? 'ejected' : 'probing'
}

/**
 * Whether an attempt was sent before the current ejection. Its result then says nothing about the server's state
 * since. Without this rule, three older streams that ended well lifted an ejection of five minutes at once while
 * new connections kept failing, and time-outs longer than the ejection ejected the offer again and again.
 */
export function isOlderThanTrial(record: OfferRecord, sentMs: number): boolean {
  return record.onTrial && sentMs < record.ejectedAtMs
}

/** Whether the faults of the last minute are enough to eject the offer. */
export function isFailing(record: OfferRecord, nowMs: number): boolean {
  if (record.failuresInRow >= FAILURES_TO_EJECT || record.connectFailuresInRow >= CONNECT_FAILURES_TO_EJECT) return true
  // A server that fails every other request never fails five times in a row. Only the rate shows it.
  let { successes, failures } = resultsOf(record, nowMs)
  const { others } = record
  // Right after a trial, the counts of the other nodes may still be those of the ejection.
  if (others.atMs > nowMs - OTHERS_AGE_MS_MAX && record.restoredAtMs < nowMs - RATE_WINDOW_MS - OTHERS_AGE_MS_MAX) {
    successes += others.successes
    failures += others.failures
  }
  return successes + failures >= RATE_REQUESTS_MIN && failures >= RATE_FAILED * (successes + failures)
}

/** Faults in a row that eject an offer. */
export const FAILURES_TO_EJECT = 5
const CONNECT_FAILURES_TO_EJECT = 3

const RATE_REQUESTS_MIN = 20
const RATE_FAILED = 0.5

/** Returns the counted results of the last minute. */
export function resultsOf({ buckets }: OfferRecord, nowMs: number): { successes: number; failures: number } {
  let successes = 0
  let failures = 0
  for (const bucket of buckets) {
    if (bucket.startMs <= nowMs - RATE_WINDOW_MS) continue
    successes += bucket.successes
    failures += bucket.failures
  }
  return { successes, failures }
}

/** Counts one result towards the failure rate. */
export function countResult(record: OfferRecord, nowMs: number, success: boolean): void {
  let bucket = record.buckets.at(-1)
  if (!bucket || nowMs - bucket.startMs >= BUCKET_MS) {
    bucket = { startMs: nowMs, successes: 0, failures: 0 }
    record.buckets.push(bucket)
    if (record.buckets.length > RATE_WINDOW_MS / BUCKET_MS) record.buckets.shift()
  }
  if (success) bucket.successes++
  else bucket.failures++
}

const RATE_WINDOW_MS = 60_000
const BUCKET_MS = 10_000

/** Ends the trial after an ejection. */
export function restoreOffer(record: OfferRecord, nowMs: number): void {
  record.onTrial = false
  record.isAdopted = false
  record.openSinceMs = nowMs
  record.restoredAtMs = nowMs
  record.ejectedUntilMs = 0
  record.buckets.length = 0
}

/** Successes in a row that end the trial after an ejection. */
export const SUCCESSES_TO_PASS = 3

/**
 * Counts one more ejection and returns its length: 5 s x 2^k, at most 300 s, times 0.5 to 1.5, so that many
 * nodes do not come back at the same moment.
 */
export function nextEjectionMs(record: OfferRecord, nowMs: number, random: () => number): number {
  if (!record.onTrial) {
    const forgiven = Math.floor((nowMs - record.openSinceMs) / FORGIVEN_EVERY_MS)
    record.ejections = Math.max(0, record.ejections - forgiven)
  }
  const ejections = record.ejections++
  return Math.min(EJECTED_MS * 2 ** ejections, EJECTED_MS_MAX) * (0.5 + random())
}

const EJECTED_MS = 5_000
const EJECTED_MS_MAX = 300_000
/** Each healthy period of this length cancels one earlier ejection. */
const FORGIVEN_EVERY_MS = 10_000

/**
 * Pauses an offer after its server answered that it is busy: for the time the server asked for, or 1 s x 2^n with
 * jitter; at most five minutes either way. A burst of refused requests counts as one refusal: counted one by
 * one, ten requests doubled the pause to five minutes.
 *
 * @param sentMs when the refused attempt was sent
 */
export function pauseOffer(
  record: OfferRecord,
  { nowMs, sentMs, retryAfterS }: { nowMs: number; sentMs: number; retryAfterS: number | undefined },
  random: () => number,
): void {
  const isNewRefusal = sentMs >= record.pausedAtMs
  if (!isNewRefusal && !retryAfterS) return
  record.pausedUntilMs = Math.max(record.pausedUntilMs, nowMs + pauseMs(record.pausesInRow, retryAfterS, random))
  record.adoptedPauseMs = null
  if (!isNewRefusal) return
  record.pausedAtMs = nowMs
  record.pausesInRow++
}

function pauseMs(pausesInRow: number, retryAfterS: number | undefined, random: () => number): number {
  // "Retry-After: 0" is ignored: otherwise a server that sends it and keeps refusing would always be tried first.
  const asked = retryAfterS !== undefined && retryAfterS > 0
  const wanted = asked ? retryAfterS * 1000 : PAUSE_MS * 2 ** pausesInRow * (0.5 + random())
  return Math.min(wanted, PAUSE_MS_MAX)
}

const PAUSE_MS = 1_000
const PAUSE_MS_MAX = 300_000

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

/**
 * How many requests at once a server takes, found by additive increase and multiplicative decrease. It only orders
 * offers: a full server comes after the others, and gets requests when there is no other.
 */
export interface Concurrency {
  limit: number
  /** The server has refused or delayed a request since the limit began to rise. */
  hasLost: boolean
  /** When the limit was last lowered. */
  loweredAtMs: number
}

export function newConcurrency(): Concurrency {
  return { limit: FIRST_LIMIT, hasLost: false, loweredAtMs: -Infinity }
}

const FIRST_LIMIT = 4

/**
 * Raises the limit after an answer: by one for each answer until the first loss, as TCP does, then by one for each
 * `limit` answers.
 *
 * @param inFlight including the request that was answered
 */
export function raiseLimit(concurrency: Concurrency, inFlight: number): void {
  if (inFlight <= concurrency.limit * USED_TO_RISE) return
  concurrency.limit += concurrency.hasLost ? 1 / concurrency.limit : 1
}

/** The limit rises only while it is nearly reached, so it says what the server has proved. */
const USED_TO_RISE = 0.8

/**
 * Lowers the limit after a refusal or a time-out. Requests that were sent before the last decrease do not lower it
 * again.
 */
export function lowerLimit(concurrency: Concurrency, nowMs: number, sentMs: number): void {
  concurrency.hasLost = true
  if (sentMs < concurrency.loweredAtMs) return
  concurrency.limit = Math.max(1, concurrency.limit * KEPT_AFTER_LOSS)
  concurrency.loweredAtMs = nowMs
}

const KEPT_AFTER_LOSS = 0.9

/** Takes over the limit that other nodes have found, as long as this one has found none. */
export function startAt(concurrency: Concurrency, limit: number): void {
  if (concurrency.limit === FIRST_LIMIT && !concurrency.hasLost) concurrency.limit = Math.max(FIRST_LIMIT, limit)
}

/** Returns the limit; null as long as nothing was learned. */
export function learnedLimit({ limit, hasLost }: Concurrency): number | null {
  return limit === FIRST_LIMIT && !hasLost ? null : limit
}
