import type { AttemptOutcome } from '../../domain/handoff.ts'
import type { Health, OfferState, SuccessSample } from '../../domain/health.ts'
import type { Clock } from '../../runtime/clock.ts'
import {
  countResult,
  isFailing,
  isOlderThanTrial,
  newOfferRecord,
  nextEjectionMs,
  type OfferRecord,
  pause,
  RECENT_MAX,
  SUCCESSES_TO_PASS,
  stateOf,
} from './offer-record.ts'

/**
 * A change of an offer's state, for the operator's log. `credential_rejected` needs the operator: the
 * upstream refuses our key.
 */
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

/** What this node knows of one offer, for the operator. */
export interface OfferReport {
  readonly offerId: string
  readonly state: OfferState
  readonly inFlight: number
  /** Attempts that were answered and that failed, since this node first used the offer. They only grow. */
  readonly answered: number
  readonly failed: number
  /** The first-token times of the last answers, ms. */
  readonly recentMs: readonly number[]
}

/** Health with a report over all offers that this node has used. */
export interface OwnHealth extends Health {
  report(): OfferReport[]
}

/**
 * Tracks the health of every offer, in memory and for this node alone: a breaker that ejects failing offers and
 * later lets one real request at a time try them again, pauses that busy servers ask for, and latency.
 * docs/routing.md lists the figures.
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

  predictMs(offerId: string, request: { stream: boolean; outputTokens: number | null }): number | null {
    return this.#records.get(offerId)?.latency.predictMs(this.#nowMs(), request) ?? null
  }

  inFlight(offerId: string): number {
    return this.#records.get(offerId)?.inFlight ?? 0
  }

  report(): OfferReport[] {
    const nowMs = this.#nowMs()
    return Array.from(this.#records, ([offerId, record]) => ({
      offerId,
      state: stateOf(record, nowMs),
      inFlight: record.inFlight,
      answered: record.answered,
      failed: record.failed,
      recentMs: [...record.recentMs],
    }))
  }

  beginRequest(offerId: string): void {
    const nowMs = this.#nowMs()
    const record = this.#recordOf(offerId, nowMs)
    if (stateOf(record, nowMs) === 'probing') record.probing = true
    record.inFlight++
  }

  endRequest(offerId: string): void {
    const record = this.#records.get(offerId)
    if (!record) return
    record.inFlight = Math.max(0, record.inFlight - 1)
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
    countResult(record, nowMs, true)
    if (isOlderThanTrial(record, sentMs)) return
    if (!record.onTrial || --record.successesToPass > 0) return
    record.onTrial = false
    record.openSinceMs = nowMs
    record.ejectedUntilMs = 0
    record.buckets.length = 0
    this.#onEvent({ event: 'restored', offerId, forMs: 0 })
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
    if (effect !== 'busy') record.failed++
    if (effect === 'busy') pause(record, { nowMs, sentMs, retryAfterS }, this.#random)
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
    if (record.ejectedUntilMs > nowMs) return
    if (!record.onTrial && !isFailing(record, nowMs)) return
    this.#eject(offerId, record, nextEjectionMs(record, nowMs, this.#random), 'ejected')
  }

  #eject(offerId: string, record: OfferRecord, forMs: number, event: HealthEvent['event']): void {
    const nowMs = this.#nowMs()
    record.onTrial = true
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

/** Long, because waiting does not help: the operator must replace the refused key. */
const CREDENTIAL_EJECTED_MS = 300_000
/** Prices and hosters come and go. When memory is full, the least recently used records are dropped. */
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
