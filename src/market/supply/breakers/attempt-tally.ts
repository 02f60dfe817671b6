import type { AttemptFailure } from '../../../base/domain/attempt-failure.ts'
import type { AttemptOutcome } from '../../../base/domain/handoff.ts'
import { deleteOldest } from '../../../base/runtime/collections.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'

/** The last failed attempt at a server. */
export interface LastError {
  /** Unix ms. */
  readonly atMs: number
  readonly outcome: AttemptOutcome
  readonly status: number | null
  /** At most `ERROR_CHARACTERS_MAX` characters. */
  readonly text: string
  /** Null if unknown. */
  readonly requestId: string | null
  readonly customerId: string | null
}

/** The attempts at one offer since this node first used it. The first three only grow. */
export interface AttemptCounts {
  readonly answered: number
  readonly failed: number
  /** Refused, because the server was busy. */
  readonly busy: number
  /** Answers since the last failure, and failures since the last answer. */
  readonly answeredInRow: number
  readonly failedInRow: number
  readonly lastError: LastError | null
  /** The last ones, at most ERRORS_KEPT, the oldest first. */
  readonly errors: readonly LastError[]
}

/**
 * Counts the attempts of all customers at each offer, for the operator and the status page. The shared breakers do not
 * count all of them, because one customer's requests must not eject a server for others: see customer-breakers.ts.
 */
export class AttemptTally {
  readonly #counts = new Map<string, MutableCounts>()
  readonly #clock: Pick<Clock, 'epochMs'>

  constructor(clock: Pick<Clock, 'epochMs'>) {
    this.#clock = clock
  }

  noteAnswer(offerId: string): void {
    const counts = this.#of(offerId)
    counts.answered++
    counts.answeredInRow++
    counts.failedInRow = 0
  }

  noteFailure(offerId: string, outcome: AttemptOutcome, failure?: AttemptFailure): void {
    const kind = kindOf(outcome)
    if (kind === null) return
    const counts = this.#of(offerId)
    counts[kind]++
    if (kind === 'failed') {
      counts.failedInRow++
      counts.answeredInRow = 0
    }
    const atMs = this.#clock.epochMs()
    const last = counts.lastError
    const isFirstFailure = last?.outcome === 'busy' && kind === 'failed'
    // A server that fails a thousand requests a second says the same each time, and reading it is not free. A failure says
    // more than a refusal.
    if (last !== null && atMs - last.atMs < ERROR_EVERY_MS && atMs >= last.atMs && !isFirstFailure) return
    counts.lastError = {
      atMs,
      outcome,
      status: failure?.status ?? null,
      text: textOf(outcome, failure),
      requestId: failure?.requestId ?? null,
      customerId: failure?.customerId ?? null,
    }
    counts.errors = withError(counts.errors, counts.lastError)
  }

  report(): ReadonlyMap<string, AttemptCounts> {
    return this.#counts
  }

  #of(offerId: string): MutableCounts {
    let counts = this.#counts.get(offerId)
    if (counts === undefined) {
      if (this.#counts.size >= OFFERS_MAX) deleteOldest(this.#counts)
      counts = { answered: 0, failed: 0, busy: 0, answeredInRow: 0, failedInRow: 0, lastError: null, errors: [] }
      this.#counts.set(offerId, counts)
    }
    return counts
  }
}

type MutableCounts = { -readonly [K in keyof AttemptCounts]: AttemptCounts[K] }

const OFFERS_MAX = 10_000
const ERROR_EVERY_MS = 1_000
/** As many as there can be between two reports: see server-reporter.ts. */
const ERRORS_KEPT = 5
/** Two reports. */
const REPORTED_AFTER_MS = 10_000
export const ERROR_CHARACTERS_MAX = 300

/** Adds an error. A refusal takes no place of a failure that may not be reported yet. */
function withError(errors: readonly LastError[], error: LastError): readonly LastError[] {
  if (errors.length < ERRORS_KEPT) return [...errors, error]
  const freeAt = errors.findIndex(({ atMs, outcome }) => outcome === 'busy' || atMs <= error.atMs - REPORTED_AFTER_MS)
  if (freeAt === -1 && error.outcome === 'busy') return errors
  return [...errors.toSpliced(Math.max(freeAt, 0), 1), error]
}

/** Null: the request, the client or this gateway was the cause, so the attempt counts neither for nor against the server. */
function kindOf(outcome: AttemptOutcome): 'failed' | 'busy' | null {
  switch (outcome) {
    case 'connect_failed':
    case 'server_error':
    case 'first_token_timeout':
    case 'malformed':
    case 'empty':
    case 'credential_rejected':
      return 'failed'
    case 'busy':
      return 'busy'
    case 'answered':
    case 'request_rejected':
    case 'not_sent':
    case 'cancelled':
      return null
  }
}

function textOf(outcome: AttemptOutcome, failure: AttemptFailure | undefined): string {
  if (failure === undefined) return outcome === 'empty' ? 'The answer had no output.' : ''
  const said = failure.serverText()
  const text = said === null ? failure.message : `${failure.message}: ${said}`
  const cut = text.length > ERROR_CHARACTERS_MAX ? `${text.slice(0, ERROR_CHARACTERS_MAX - 1)}…` : text
  // PostgreSQL refuses half of a surrogate pair in JSON, and with it the whole report of the node.
  return cut.toWellFormed()
}
