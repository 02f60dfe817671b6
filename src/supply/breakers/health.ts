import type { AttemptOutcome } from '../../domain/handoff.ts'
import type { Health, OfferState, SuccessSample } from '../../domain/health.ts'
import type { Clock } from '../../runtime/clock.ts'
import { createLatency, type Latency } from './latency.ts'

/** Something an operator may want to know. `credential_rejected` needs one: the upstream refuses our key. */
export interface HealthEvent {
  readonly event: 'ejected' | 'restored' | 'credential_rejected'
  readonly offerId: string
  /** How long the offer is kept away, ms; 0 for `restored`. */
  readonly forMs: number
}

export interface HealthOptions {
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly onEvent?: (event: HealthEvent) => void
}

/**
 * The recent past of every offer, in memory and for this node alone: a breaker that ejects what fails and lets one real
 * request at a time try it again, pauses that busy servers ask for, and latency. The figures are those of docs/routing.md.
 */
export function createHealth({ clock, random, onEvent = () => {} }: HealthOptions): Health {
  const records = new Map<string, OfferRecord>()
  const now = () => clock.monotonicMs()

  const eject = (offerId: string, record: OfferRecord, forMs: number, event: HealthEvent['event'] = 'ejected') => {
    record.onTrial = true
    record.ejectedAtMs = now()
    record.successesToPass = SUCCESSES_TO_PASS
    record.ejectedUntilMs = now() + forMs
    record.probing = false
    onEvent({ event, offerId, forMs })
  }

  return {
    state(offerId) {
      const record = records.get(offerId)
      return record ? stateOf(record, now()) : 'open'
    },

    ejectedForMs(offerId) {
      const record = records.get(offerId)
      if (!record || stateOf(record, now()) !== 'ejected') return 0
      // One that is only waiting for its running probe is the least bad of all.
      return Math.max(1, record.ejectedUntilMs - now(), record.pausedUntilMs - now())
    },

    predictMs: (offerId, request) => records.get(offerId)?.latency.predictMs(now(), request) ?? null,

    inFlight: offerId => records.get(offerId)?.inFlight ?? 0,

    beginRequest(offerId) {
      const nowMs = now()
      const record = recordOf(records, offerId, nowMs)
      if (stateOf(record, nowMs) === 'probing') record.probing = true
      record.inFlight++
    },

    endRequest(offerId) {
      const record = records.get(offerId)
      if (!record) return
      record.inFlight = Math.max(0, record.inFlight - 1)
      // Which request was the probe is not kept: an older one that ends meanwhile lets a second probe go, which does no harm.
      record.probing = false
    },

    recordSuccess(offerId, sample: SuccessSample, sentMs = now()) {
      const nowMs = now()
      const record = recordOf(records, offerId, nowMs)
      record.latency.add(nowMs, sample)
      record.probing = false
      record.failuresInRow = 0
      record.connectFailuresInRow = 0
      record.pausesInRow = 0
      tally(record, nowMs, true)
      if (isOlderThanTrial(record, sentMs)) return
      if (!record.onTrial || --record.successesToPass > 0) return
      record.onTrial = false
      record.openSinceMs = nowMs
      record.ejectedUntilMs = 0
      record.buckets.length = 0
      onEvent({ event: 'restored', offerId, forMs: 0 })
    },

    recordFailure(offerId, outcome, retryAfterS, sentMs = now()) {
      const effect = effectOf[outcome]
      if (effect === 'not_counted') return
      const record = recordOf(records, offerId, now())
      record.probing = false
      if (effect === 'busy') {
        // A burst that is refused is one refusal: ten of its requests doubled the pause ten times, to five minutes.
        const isNews = sentMs >= record.pausedAtMs
        if (!isNews && !retryAfterS) return
        const forMs = pauseMs(record.pausesInRow, retryAfterS, random)
        record.pausedUntilMs = Math.max(record.pausedUntilMs, now() + forMs)
        if (!isNews) return
        record.pausedAtMs = now()
        record.pausesInRow++
        return
      }
      if (effect === 'credential') {
        eject(offerId, record, CREDENTIAL_EJECTED_MS, 'credential_rejected')
        return
      }
      record.failuresInRow++
      record.connectFailuresInRow = outcome === 'connect_failed' ? record.connectFailuresInRow + 1 : 0
      tally(record, now(), false)
      if (isOlderThanTrial(record, sentMs)) return
      record.successesToPass = SUCCESSES_TO_PASS
      // A last resort: it is kept away already.
      if (record.ejectedUntilMs > now()) return
      const isOut = record.onTrial || isFailing(record, now())
      if (!isOut) return
      if (!record.onTrial) record.ejections = ejectionsLeft(record, now())
      eject(offerId, record, ejectionMs(record.ejections++, random))
    },
  }
}

interface OfferRecord {
  /** It was ejected and has not had enough successes since. */
  onTrial: boolean
  /** The last time. */
  ejectedAtMs: number
  openSinceMs: number
  ejectedUntilMs: number
  /** A request is trying the offer after its ejection. */
  probing: boolean
  successesToPass: number
  /** The k of 5 s x 2^k. */
  ejections: number
  failuresInRow: number
  connectFailuresInRow: number
  /** A server that is busy is not ill: its pauses are apart from the breaker. */
  pausedUntilMs: number
  /** When the last pause began. */
  pausedAtMs: number
  pausesInRow: number
  inFlight: number
  touchedMs: number
  /** The last minute in slices, newest last. */
  buckets: { startMs: number; successes: number; failures: number }[]
  readonly latency: Latency
}

/** In a row. */
export const FAILURES_TO_EJECT = 5
const CONNECT_FAILURES_TO_EJECT = 3
const SUCCESSES_TO_PASS = 3
const EJECTED_MS = 5_000
const EJECTED_MS_MAX = 300_000
/** A refused key is cured by a person, not by waiting. */
const CREDENTIAL_EJECTED_MS = 300_000
/** After this much health an offer is forgiven one earlier ejection. */
const FORGIVEN_EVERY_MS = 10_000
const RATE_WINDOW_MS = 60_000
const BUCKET_MS = 10_000
const RATE_REQUESTS_MIN = 20
const RATE_FAILED = 0.5
const PAUSE_MS = 1_000
const PAUSE_MS_MAX = 300_000
/** Prices and hosters come and go; records of what nobody used for longest make room. */
const RECORDS_MAX = 10_000

const effectOf: Record<Exclude<AttemptOutcome, 'answered'>, 'fault' | 'busy' | 'credential' | 'not_counted'> = {
  connect_failed: 'fault',
  server_error: 'fault',
  first_token_timeout: 'fault',
  malformed: 'fault',
  empty: 'fault',
  busy: 'busy',
  credential_rejected: 'credential',
  request_rejected: 'not_counted',
  not_sent: 'not_counted',
  cancelled: 'not_counted',
}

function stateOf(record: OfferRecord, nowMs: number): OfferState {
  if (record.pausedUntilMs > nowMs || record.ejectedUntilMs > nowMs) return 'ejected'
  if (!record.onTrial) return 'open'
  return record.probing ? 'ejected' : 'probing'
}

/**
 * What was sent before the ejection says nothing of the time after it. Three streams that ended well ended an ejection of five minutes at once, as
 * often as new connections failed; and time-outs longer than the ejection ejected again and again.
 */
function isOlderThanTrial(record: OfferRecord, sentMs: number): boolean {
  return record.onTrial && sentMs < record.ejectedAtMs
}

function isFailing(record: OfferRecord, nowMs: number): boolean {
  if (record.failuresInRow >= FAILURES_TO_EJECT || record.connectFailuresInRow >= CONNECT_FAILURES_TO_EJECT) return true
  // A server that fails every other request never fails five times in a row: only the rate sees it.
  let successes = 0
  let failures = 0
  for (const bucket of record.buckets) {
    if (bucket.startMs <= nowMs - RATE_WINDOW_MS) continue
    successes += bucket.successes
    failures += bucket.failures
  }
  return successes + failures >= RATE_REQUESTS_MIN && failures >= RATE_FAILED * (successes + failures)
}

function tally(record: OfferRecord, nowMs: number, success: boolean): void {
  let bucket = record.buckets.at(-1)
  if (!bucket || nowMs - bucket.startMs >= BUCKET_MS) {
    bucket = { startMs: nowMs, successes: 0, failures: 0 }
    record.buckets.push(bucket)
    if (record.buckets.length > RATE_WINDOW_MS / BUCKET_MS) record.buckets.shift()
  }
  if (success) bucket.successes++
  else bucket.failures++
}

function ejectionsLeft(record: OfferRecord, nowMs: number): number {
  return Math.max(0, record.ejections - Math.floor((nowMs - record.openSinceMs) / FORGIVEN_EVERY_MS))
}

/** 5 s x 2^k, at most 300 s, give or take half of it, so that many nodes do not come back at the same moment. */
function ejectionMs(ejections: number, random: () => number): number {
  return Math.min(EJECTED_MS * 2 ** ejections, EJECTED_MS_MAX) * (0.5 + random())
}

/** What the server asked for, or 1 s x 2^n with jitter; never more than five minutes, whatever it asks. */
function pauseMs(pausesInRow: number, retryAfterS: number | undefined, random: () => number): number {
  // Who says "in 0 seconds" and refuses again would be the first to be asked for ever.
  const asked = retryAfterS !== undefined && retryAfterS > 0
  const wanted = asked ? retryAfterS * 1000 : PAUSE_MS * 2 ** pausesInRow * (0.5 + random())
  return Math.min(wanted, PAUSE_MS_MAX)
}

function recordOf(records: Map<string, OfferRecord>, offerId: string, nowMs: number): OfferRecord {
  let record = records.get(offerId)
  if (!record) {
    if (records.size >= RECORDS_MAX) forgetOldest(records)
    record = {
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
      inFlight: 0,
      touchedMs: nowMs,
      buckets: [],
      latency: createLatency(),
    }
    records.set(offerId, record)
  }
  record.touchedMs = nowMs
  return record
}

/** Drops a tenth at once, so that the sort is rare. */
function forgetOldest(records: Map<string, OfferRecord>): void {
  const idle = [...records]
    .filter(([, record]) => record.inFlight === 0)
    .sort(([, a], [, b]) => a.touchedMs - b.touchedMs)
  for (const [offerId] of idle.slice(0, RECORDS_MAX / 10)) records.delete(offerId)
}
