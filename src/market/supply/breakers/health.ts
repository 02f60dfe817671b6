import type { AttemptOutcome } from '../../../base/domain/handoff.ts'
import type {
  ConcurrencyLimits,
  OfferReading,
  OfferState,
  PredictedRequest,
  SuccessSample,
} from '../../../base/domain/health.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import { adopt, endAdoptedPause, type LearnedOffer, takeChanges } from './learned-offer.ts'
import {
  countResult,
  isFailing,
  isOlderThanTrial,
  lowerLimit,
  newOfferRecord,
  nextEjectionMs,
  type OfferRecord,
  pauseOffer,
  RECENT_MAX,
  raiseLimit,
  restoreOffer,
  SUCCESSES_TO_PASS,
  shareOf,
  stateOf,
} from './offer-record.ts'
import { type HealthEvent, type OfferReport, reportOf } from './offer-report.ts'
import type { OwnHealth } from './own-health.ts'

export interface HealthOptions {
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly onEvent?: (event: HealthEvent) => void
}

/**
 * Tracks the health of every offer, in memory: a breaker that ejects failing offers and later lets one real request at
 * a time try them again, pauses that busy servers ask for, how many requests at once a server takes, and latency. It
 * uses what this node has seen, and where that is little, what others have (`adopt`). docs/routing.md lists the
 * figures.
 */
export function createHealth(options: HealthOptions): OwnHealth {
  return new OfferHealth(options)
}

class OfferHealth implements OwnHealth {
  readonly #records = new Map<string, OfferRecord>()
  readonly #clock: Clock
  readonly #random: () => number
  readonly #onEvent: (event: HealthEvent) => void

  constructor({ clock, random, onEvent = () => {} }: HealthOptions) {
    this.#clock = clock
    this.#random = random
    this.#onEvent = onEvent
  }

  state(offerId: string): OfferState {
    const record = this.#records.get(offerId)
    return record ? stateOf(record, this.#nowMs()) : 'open'
  }

  ejectedForMs(offerId: string): number {
    const nowMs = this.#nowMs()
    const record = this.#records.get(offerId)
    if (!record || stateOf(record, nowMs) !== 'ejected') return 0
    // An offer that only waits for its running probe counts as the shortest ejection.
    return Math.max(1, record.ejectedUntilMs - nowMs, record.pausedUntilMs - nowMs)
  }

  predictMs(offerId: string, request: PredictedRequest): number | null {
    return this.#records.get(offerId)?.latency.predictMs(this.#nowMs(), request) ?? null
  }

  firstTokenP95Ms(offerId: string, inputTokens: number): number | null {
    return this.#records.get(offerId)?.latency.firstTokenP95Ms(this.#nowMs(), inputTokens) ?? null
  }

  inFlight(offerId: string): number {
    return this.#records.get(offerId)?.inFlight ?? 0
  }

  read(offerId: string, request: PredictedRequest, limits: ConcurrencyLimits): OfferReading {
    const record = this.#records.get(offerId)
    if (record === undefined) return UNTRIED
    const nowMs = this.#nowMs()
    const predictedMs = record.latency.predictMs(nowMs, request)
    return {
      state: stateOf(record, nowMs),
      predictedMs,
      isMeasured: predictedMs !== null && record.latency.lastAtMs > nowMs - MEASURED_NOW_MS,
      inFlight: record.inFlight,
      share: shareOf(record, limits, nowMs),
    }
  }

  takeChanges(max: number): ReadonlyMap<string, LearnedOffer> {
    return takeChanges(this.#records, max, this.#nowMs())
  }

  returnChanges(offerIds: Iterable<string>): void {
    for (const offerId of offerIds) {
      const record = this.#records.get(offerId)
      if (record) record.hasChanged = true
    }
  }

  adopt(offerId: string, learned: LearnedOffer | null): void {
    const record = learned === null ? this.#records.get(offerId) : this.#recordOf(offerId, this.#nowMs())
    if (record) adopt(record, learned, this.#nowMs())
  }

  report(): OfferReport[] {
    const nowMs = this.#nowMs()
    return Array.from(this.#records, ([offerId, record]) => reportOf(offerId, record, nowMs))
  }

  beginRequest(offerId: string): void {
    const nowMs = this.#nowMs()
    const record = this.#recordOf(offerId, nowMs)
    if (stateOf(record, nowMs) === 'probing') record.probing = true
    record.inFlight++
    if (record.waiting++ === 0) record.lastAnswerMs = nowMs
    record.hasChanged = true
  }

  noteContent(offerId: string): void {
    const record = this.#records.get(offerId)
    if (!record) return
    record.waiting = Math.max(0, record.waiting - 1)
    record.lastAnswerMs = this.#nowMs()
  }

  endRequest(offerId: string, hadContent = false): void {
    const record = this.#records.get(offerId)
    if (!record) return
    record.inFlight = Math.max(0, record.inFlight - 1)
    if (!hadContent) record.waiting = Math.max(0, record.waiting - 1)
    record.hasChanged = true
    // Which request is the probe is not tracked. When an older request ends during a probe, a second probe
    // may start: harmless.
    record.probing = false
  }

  recordSuccess(offerId: string, sample: SuccessSample, sentMs: number = this.#nowMs()): void {
    const nowMs = this.#nowMs()
    const record = this.#recordOf(offerId, nowMs)
    record.latency.add(nowMs, sample)
    record.recentMs[record.answered++ & (RECENT_MAX - 1)] = sample.firstTokenMs
    record.probing = false
    record.failuresInRow = 0
    record.connectFailuresInRow = 0
    record.pausesInRow = 0
    record.lastAnswerMs = nowMs
    record.lastSuccessSentMs = Math.max(record.lastSuccessSentMs, sentMs)
    record.hasChanged = true
    raiseLimit(record.concurrency, record.inFlight)
    countResult(record, nowMs, true)
    if (record.adoptedPauseMs !== null && sentMs >= record.adoptedPauseMs) endAdoptedPause(record)
    if (isOlderThanTrial(record, sentMs)) return
    // Against an ejection by another node, one success of this node is enough.
    if (!record.onTrial || (--record.successesToPass > 0 && !record.isAdopted)) return
    if (!record.isAdopted) this.#onEvent({ event: 'restored', offerId, forMs: 0 })
    restoreOffer(record, nowMs)
  }

  recordFailure(
    offerId: string,
    outcome: Exclude<AttemptOutcome, 'answered'>,
    retryAfterS?: number,
    sentMs: number = this.#nowMs(),
  ): void {
    const effect = effectOf[outcome]
    if (effect === 'not_counted') return
    const nowMs = this.#nowMs()
    const record = this.#recordOf(offerId, nowMs)
    record.probing = false
    record.hasChanged = true
    if (outcome !== 'first_token_timeout' && outcome !== 'connect_failed') record.lastAnswerMs = nowMs
    if (outcome === 'busy' || outcome === 'first_token_timeout') lowerLimit(record.concurrency, nowMs, sentMs)
    if (effect === 'busy') pauseOffer(record, { nowMs, sentMs, retryAfterS }, this.#random)
    else if (effect === 'credential') this.#eject(offerId, record, CREDENTIAL_EJECTED_MS, 'credential_rejected')
    else this.#recordFault(offerId, record, outcome, sentMs)
  }

  #recordFault(offerId: string, record: OfferRecord, outcome: AttemptOutcome, sentMs: number): void {
    const nowMs = this.#nowMs()
    record.failuresInRow++
    record.connectFailuresInRow = outcome === 'connect_failed' ? record.connectFailuresInRow + 1 : 0
    countResult(record, nowMs, false)
    if (isOlderThanTrial(record, sentMs)) return
    record.successesToPass = SUCCESSES_TO_PASS
    // The offer was tried as a last resort: it is ejected already.
    if (record.ejectedUntilMs > nowMs && !(record.isAdopted && isFailing(record, nowMs))) return
    if (!record.onTrial && !isFailing(record, nowMs)) return
    this.#eject(offerId, record, nextEjectionMs(record, nowMs, this.#random), 'ejected')
  }

  #eject(offerId: string, record: OfferRecord, forMs: number, event: HealthEvent['event']): void {
    const nowMs = this.#nowMs()
    record.onTrial = true
    record.isAdopted = false
    record.ejectedAtMs = nowMs
    record.successesToPass = SUCCESSES_TO_PASS
    record.ejectedUntilMs = nowMs + forMs
    record.probing = false
    this.#onEvent({ event, offerId, forMs })
  }

  #recordOf(offerId: string, nowMs: number): OfferRecord {
    let record = this.#records.get(offerId)
    if (!record) {
      if (this.#records.size >= RECORDS_MAX) this.#forgetOldest()
      record = newOfferRecord(nowMs)
      this.#records.set(offerId, record)
    }
    record.touchedMs = nowMs
    return record
  }

  /** Drops a tenth at once, so that the sort is rare. */
  #forgetOldest(): void {
    const idle = [...this.#records]
      .filter(([, record]) => record.inFlight === 0)
      .sort(([, a], [, b]) => a.touchedMs - b.touchedMs)
    for (const [offerId] of idle.slice(0, RECORDS_MAX / 10)) this.#records.delete(offerId)
  }

  #nowMs(): number {
    return this.#clock.monotonicMs()
  }
}

const UNTRIED: OfferReading = { state: 'open', predictedMs: null, isMeasured: false, inFlight: 0, share: 1 }

/** Offers without an answer for longer are explored. */
const MEASURED_NOW_MS = 60_000

/** Long, because waiting does not help: the operator must replace the refused key. */
const CREDENTIAL_EJECTED_MS = 300_000
/** Prices and hosters come and go. When memory is full, the least recently used records are dropped. */
const RECORDS_MAX = 10_000

/** How a failed attempt counts for the health of its offer. */
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
