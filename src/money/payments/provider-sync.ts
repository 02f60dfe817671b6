import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { DAY_MS, HOUR_MS } from '../../base/domain/durations.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

/** What a run over many payments or payouts did. */
export interface Reconciliation {
  readonly looked: number
  readonly booked: number
  readonly mismatched: number
  /** Attempts without an answer of the provider. */
  readonly failed: number
}

/** An event of a provider: a hint that `ref` has changed. */
export interface ProviderEvent {
  readonly eventId: string
  readonly type: string
  readonly ref: string
}

export interface EventKey {
  readonly driver: string
  readonly eventId: string
}

/** Asks providers what has become of payments, or of payouts, and books the difference. */
export interface ProviderSync<Driver, Result> {
  /** Asks for one row. @param event handled with it, in the same transaction */
  book(id: string, event?: EventKey): Promise<Result>
  /** Stores an event, asks for what it hints at, and books it. A repeated event changes nothing. */
  handleEvent(driver: Driver, event: ProviderEvent): Promise<Result>
  /** Handles the events that wait, and asks for all rows that are due. */
  reconcile(options?: { readonly isComplete?: boolean }): Promise<Reconciliation>
}

interface AnyDriver {
  readonly name: string
  /** False in the provider's test mode. */
  readonly isLive: boolean
  readonly provider: object | null
}

/** A driver with a provider. */
export type WithProvider<Driver extends AnyDriver> = Driver & { readonly provider: NonNullable<Driver['provider']> }

/** How payments, by which money comes in, and payouts, by which it goes out, differ. */
export interface SyncedTable<Driver extends AnyDriver, Row, Looked, Result extends string> {
  /** The name of the table, and the beginning of the names of its events, functions and failpoints. */
  readonly name: 'payment' | 'payout'
  /** The results that changed the books. */
  readonly bookedResults: readonly Result[]
  /** The result for a row that does not exist, or that no provider has. */
  readonly absent: Result
  /** Reads a row by its id, which a provider may have made up. */
  find(id: string): Promise<Row | undefined>
  /**
   * Asks the provider for a row, and starts what was not started. Rejects if the provider does not answer. Returns a
   * result where nothing is to be booked; 'stale': the row has changed.
   */
  look(driver: WithProvider<Driver>, row: Row, nowMs: number): Promise<Looked | Result | 'stale'>
  /** Books a report, in a transaction. Returns 'stale' if another one was booked since the row was read. */
  book(sql: Sql, looked: Looked, nowMs: number): Promise<Result | 'stale'>
  /** Runs after a report was booked. */
  afterBooking?(driver: WithProvider<Driver>, looked: Looked, nowMs: number): Promise<void>
  /** Returns our id of the row that an event names; null: there is none of ours, or nothing to book. */
  idOf(driver: WithProvider<Driver>, ref: string, nowMs: number): Promise<string | null>
}

/** Runs a part of a run over many rows; it may fail. @param what names it in the log */
export type Attempt<Result> = (what: object, work: () => Promise<Result>) => Promise<void>

const TRIES = 5
export const DUE_MAX = 200

/** The engine of payments and payouts: returns `book`, `handleEvent`, and the parts of a run over many rows. */
export function createProviderSync<
  Driver extends AnyDriver,
  Row extends { readonly driver: string },
  Looked extends { readonly report: object },
  Result extends string,
>(
  deps: {
    readonly pool: Pool
    readonly clock: Clock
    readonly drivers: readonly Driver[]
    readonly log: Pick<Log, 'warn'>
  },
  table: SyncedTable<Driver, Row, Looked, Result>,
) {
  const { pool, clock, log } = deps
  const { name } = table
  const drivers = deps.drivers.filter((each): each is WithProvider<Driver> => each.provider !== null)
  const driverOf = (driver: string) => drivers.find(each => each.name === driver)

  const finishEvent = (sql: Sql, { driver, eventId }: EventKey) =>
    sql.query(`SELECT finish_${name}_event($1, $2)`, [driver, eventId])

  async function book(id: string, event?: EventKey): Promise<Result> {
    for (let tries = 0; tries < TRIES; tries++) {
      const nowMs = clock.epochMs()
      const row = await table.find(id)
      const driver = row && driverOf(row.driver)
      if (row === undefined || driver === undefined) return table.absent
      const looked = await table.look(driver, row, nowMs)
      if (looked === 'stale') continue
      if (typeof looked === 'string') return looked
      failpoint(`${name}-looked`)
      const booked = await transaction(pool, async sql => {
        const result = await table.book(sql, looked, nowMs)
        if (event !== undefined && result !== 'stale') await finishEvent(sql, event)
        failpoint(`${name}-booking`)
        return result
      })
      failpoint(`${name}-booked`)
      if (booked === 'stale') continue
      if (booked === 'mismatch') {
        log.warn({ [`${name}Id`]: id, report: looked.report }, `a ${name} differs from what its provider reports`)
      }
      await table.afterBooking?.(driver, looked, nowMs)
      return booked
    }
    throw new Error(`${name} ${id} was booked by others ${TRIES} times in a row`)
  }

  async function handleEvent(driver: Driver, { eventId, type, ref }: ProviderEvent): Promise<Result | 'unchanged'> {
    const asked = driverOf(driver.name)
    if (asked === undefined) return table.absent
    const { rows } = await pool.query<{ waits: boolean }>(`SELECT note_${name}_event($1, $2, $3, $4) AS waits`, [
      driver.name,
      eventId,
      type,
      ref,
    ])
    failpoint(`${name}-event-noted`)
    if (!rows[0]?.waits) return 'unchanged'
    const key = { driver: driver.name, eventId }
    const id = await table.idOf(asked, ref, clock.epochMs())
    const result = id === null ? table.absent : await book(id, key)
    // An account of the provider may serve other programs too.
    await finishEvent(pool, key)
    return result
  }

  return {
    /** The drivers with a provider. */
    drivers,
    book,
    handleEvent,
    counting() {
      return countAttempts(log, `a ${name} could not be reconciled; trying again`, table.bookedResults)
    },
    /** Handles the events that wait. */
    async handleWaitingEvents(attempt: Attempt<Result | 'unchanged'>): Promise<void> {
      if (drivers.length === 0) return
      const { rows } = await pool.query<ProviderEvent & { driver: string }>(
        `SELECT driver, event_id AS "eventId", type, provider_ref AS ref FROM ${name}_event
          WHERE handled_at IS NULL ORDER BY received_at LIMIT $1`,
        [DUE_MAX],
      )
      for (const { driver, ...event } of rows) {
        const asked = driverOf(driver)
        if (asked !== undefined) await attempt({ eventId: event.eventId }, () => handleEvent(asked, event))
      }
    },
    /**
     * Asks for the rows that are due. Those of the provider's other mode are unknown to it, and would keep others
     * waiting.
     *
     * @param isComplete for all that may still change
     */
    async bookDue(attempt: Attempt<Result>, isComplete: boolean): Promise<void> {
      if (drivers.length === 0) return
      const { rows } = await pool.query<{ id: string }>(
        `SELECT ${name}_id AS id FROM ${name}
          WHERE next_look_at IS NOT NULL AND ($3::timestamptz IS NULL OR next_look_at <= $3)
            AND ((driver, is_live) IN (SELECT * FROM unnest($1::text[], $2::boolean[])) OR (driver = ANY ($1) AND provider_ref IS NULL))
          ORDER BY next_look_at LIMIT $4`,
        [
          drivers.map(each => each.name),
          drivers.map(each => each.isLive),
          ...(isComplete ? [null, null] : [new Date(clock.epochMs()), DUE_MAX]),
        ],
      )
      for (const { id } of rows) await attempt({ [`${name}Id`]: id }, () => book(id))
    },
  }
}

/** Counts the results of attempts, of which some may fail. @param failure the log message of a failed one */
function countAttempts<Result extends string>(
  log: Pick<Log, 'warn'>,
  failure: string,
  bookedResults: readonly Result[],
): { readonly counts: Reconciliation; readonly attempt: Attempt<Result> } {
  const counts = { looked: 0, booked: 0, mismatched: 0, failed: 0 }
  return {
    counts,
    async attempt(what, work) {
      try {
        const result = await work()
        counts.looked++
        if (bookedResults.includes(result)) counts.booked++
        if (result === 'mismatch') counts.mismatched++
      } catch (error) {
        counts.failed++
        log.warn({ err: error, ...what }, failure)
      }
    },
  }
}

/** An event usually comes first. After a crash, the job asks this much later. */
export const FIRST_LOOK_MS = 120_000
/** Cards can be disputed for 120 days, some for longer. Transfers are reversed as late. */
const WATCHED_MS = 200 * DAY_MS

/**
 * Providers report changes themselves. These looks find what was lost, less often the older a row is. Null: no further
 * one.
 */
export function nextLookAt(isPaid: boolean, createdAt: Date, nowMs: number): Date | null {
  const ageMs = Math.max(nowMs - createdAt.getTime(), 0)
  if (!isPaid) return new Date(nowMs + Math.min(FIRST_LOOK_MS + ageMs / 2, DAY_MS))
  return ageMs > WATCHED_MS ? null : new Date(nowMs + Math.min(HOUR_MS + ageMs / 2, 7 * DAY_MS))
}
