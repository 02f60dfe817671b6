import type { Pool } from '../../../base/db/pool.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { type HosterRecord, readHosterRecords } from './read-hoster-records.ts'

/** Which hosters' offers have not proved themselves, and may get little traffic. */
export interface Newcomers {
  /**
   * `none`: the offer has proved itself. `open`: a newcomer below its limits. `capped`: a newcomer with as many requests in
   * flight, or as much money today, as newcomers may have.
   */
  standing(offerId: string): 'none' | 'open' | 'capped'
  /** Reads the records of all nodes. Rejects when PostgreSQL is unavailable. */
  refresh(): Promise<void>
  /** Refreshes until stopped. */
  start(): void
  stop(): Promise<void>
}

export interface NewcomerLimits {
  /** How many answers an offer needs to prove itself. 0: none. */
  readonly successes: number
  /** How many customers must have paid for them. */
  readonly payers: number
  readonly inFlight: number
  readonly nanosPerDay: bigint
}

const EVERY_MS = 15_000

export function createNewcomers(deps: {
  readonly pool: Pool
  readonly limits: NewcomerLimits
  /**
   * Whether a server of the operator or a cloud sells the model of a hoster's offer, so that it must be compared with
   * it first.
   */
  readonly needsComparison: (offerId: string) => boolean
  /** The requests in flight at an offer. */
  readonly inFlight: (offerId: string) => number
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
}): Newcomers {
  const { pool, limits, scheduler, log } = deps
  let records: ReadonlyMap<string, HosterRecord> = new Map()

  async function refresh() {
    if (limits.successes > 0)
      records = await readHosterRecords(pool, scheduler.epochMs(), { answers: limits.successes, payers: limits.payers })
  }

  const refreshing = createPeriodicWork({
    work: refresh,
    everyMs: EVERY_MS,
    failure: 'the records of new hosters could not be read; trying again',
    scheduler,
    log,
  })

  return {
    standing(offerId) {
      if (limits.successes === 0) return 'none'
      const record = records.get(offerId)
      const hasAnswered = (record?.answered ?? 0) >= limits.successes
      if (hasAnswered && (record?.isCompared || !deps.needsComparison(offerId))) return 'none'
      if (deps.inFlight(offerId) >= limits.inFlight) return 'capped'
      return (record?.todayNanos ?? 0n) >= limits.nanosPerDay ? 'capped' : 'open'
    },
    refresh,
    start: refreshing.start,
    stop: refreshing.stop,
  }
}
