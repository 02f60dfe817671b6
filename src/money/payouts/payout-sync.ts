import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import type { Clock } from '../../base/runtime/clock.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import { countAttempts, type Reconciliation } from '../payments/count-attempts.ts'
import { refreshPayoutAccount } from './payout-accounts.ts'
import type { PayoutRules } from './payout-batches.ts'
import { type PayoutDriver, type PayoutOrder, PayoutRefused, type PayoutReport } from './payout-driver.ts'
import { findPayout, type Payout, payoutsOfBatch } from './read-payouts.ts'

export type PayoutBooked =
  | 'booked'
  | 'unchanged'
  | 'mismatch'
  /** The payout does not exist, or people settle it. */
  | 'no_payout'
  | 'not_approved'
  | 'cancelled'

export interface SettledBatch extends Reconciliation {
  /** For a bank; null if a provider has the transfers. */
  readonly file: string | null
}

/** Sends approved payouts, asks providers for them, and books the difference. Nothing else books payouts of providers. */
export interface PayoutSync {
  /** Sends what is approved in a batch and was not sent, and asks for the rest. Each payout is paid once, however often this runs. */
  settle(batchId: string): Promise<SettledBatch>
  /** Asks for one payout, and sends it if that was begun. @param event handled with it, in the same transaction */
  book(payoutId: string, event?: EventKey): Promise<PayoutBooked>
  /** Stores an event, asks for what it hints at, and books it. A repeated event changes nothing. */
  handleEvent(driver: PayoutDriver, event: { eventId: string; type: string; ref: string }): Promise<PayoutBooked>
  /** Asks for all payouts that are due, and handles events that wait. */
  reconcile(options?: { readonly isComplete?: boolean }): Promise<Reconciliation>
}

interface EventKey {
  readonly driver: string
  readonly eventId: string
}

const TRIES = 5
const DUE_MAX = 200

export function createPayoutSync(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PayoutDriver[]
  readonly rules: Pick<PayoutRules, 'accountWaitHours'>
  readonly log: Pick<Log, 'warn'>
}): PayoutSync {
  const { pool, clock, drivers, rules, log } = deps

  const driverOf = (name: string) => drivers.find(each => each.name === name)

  const counting = () =>
    countAttempts<PayoutBooked>(log, 'a payout could not be settled; trying again', ['booked', 'cancelled'])

  const sync: PayoutSync = {
    async settle(batchId) {
      const { counts, attempt } = counting()
      const payouts = await payoutsOfBatch(pool, batchId)
      const forBank: Payout[] = []
      for (const payout of payouts) {
        if (driverOf(payout.driver)?.provider !== undefined) {
          await attempt({ payoutId: payout.payoutId }, () => sync.book(payout.payoutId))
        } else if ((await begin(pool, payout.payoutId, null)) === 'begun') forBank.push(payout)
      }
      const bank = driverOf('csv')
      const file = forBank.length === 0 || bank === undefined ? null : (await bank.pay(forBank.map(orderOf))).file
      return { ...counts, file }
    },
    async book(payoutId, event) {
      for (let tries = 0; tries < TRIES; tries++) {
        const nowMs = clock.epochMs()
        const payout = await findPayout(pool, payoutId)
        const driver = payout && driverOf(payout.driver)
        if (payout === undefined || driver?.provider === undefined) return 'no_payout'
        if (payout.state === 'approved') {
          const verdict = await begin(pool, payoutId, new Date(nowMs + FIRST_LOOK_MS))
          if (verdict === 'cancelled' || verdict === 'not_approved') return verdict
          failpoint('payout-begun')
          continue
        }
        const order = orderOf(payout)
        let report = await driver.look(order)
        if (report.state === 'absent' && payout.state === 'sending') {
          report = (await readHold(pool, payoutId, nowMs)) ?? (await send(pool, driver, order))
        }
        failpoint('payout-looked')
        const booked = await transaction(pool, async sql => {
          const result = await bookReport(sql, payout, report, nowMs)
          if (event !== undefined && result !== 'stale') {
            await sql.query('SELECT finish_payout_event($1, $2)', [event.driver, event.eventId])
          }
          failpoint('payout-booking')
          return result
        })
        failpoint('payout-booked')
        if (booked === 'stale') continue
        if (booked === 'mismatch') log.warn({ payoutId, report }, 'a payout differs from what its provider reports')
        // An account that is closed, or lacks something, is left out of the next batch.
        if (report.state === 'failed') {
          await refreshPayoutAccount(pool, driver, payout.destination, { ...rules, nowMs }).catch(error =>
            log.warn({ err: error, payoutId }, 'the account of a payout that failed could not be read'),
          )
        }
        return booked
      }
      throw new Error(`payout ${payoutId} was booked by others ${TRIES} times in a row`)
    },
    async handleEvent(driver, { eventId, type, ref }) {
      const { rows } = await pool.query<{ waits: boolean }>('SELECT note_payout_event($1, $2, $3, $4) AS waits', [
        driver.name,
        eventId,
        type,
        ref,
      ])
      failpoint('payout-event-noted')
      if (!rows[0]!.waits) return 'unchanged'
      const key = { driver: driver.name, eventId }
      let result: PayoutBooked = 'no_payout'
      if (ref.startsWith('acct_')) {
        await refreshPayoutAccount(pool, driver, ref, { ...rules, nowMs: clock.epochMs() })
      } else {
        const payoutId = await driver.provider!.payoutIdOf(ref)
        if (payoutId !== null) result = await sync.book(payoutId, key)
      }
      // An account of the provider may serve other programs too.
      await pool.query('SELECT finish_payout_event($1, $2)', [key.driver, key.eventId])
      return result
    },
    async reconcile({ isComplete = false } = {}) {
      const { counts, attempt } = counting()
      const withProvider = drivers.filter(each => each.provider !== undefined)
      if (withProvider.length === 0) return counts
      for (const { driver, eventId, type, ref } of await waitingEvents(pool)) {
        const found = withProvider.find(({ name }) => name === driver)
        if (found !== undefined) await attempt({ eventId }, () => sync.handleEvent(found, { eventId, type, ref }))
      }
      const names = withProvider.map(({ name }) => name)
      for (const payoutId of await duePayouts(pool, names, isComplete ? null : clock.epochMs())) {
        await attempt({ payoutId }, () => sync.book(payoutId))
      }
      return counts
    },
  }
  return sync
}

type BeginVerdict = 'begun' | 'cancelled' | 'not_approved' | 'ended' | 'no_payout'

async function begin(sql: Sql, payoutId: string, nextLookAt: Date | null): Promise<BeginVerdict> {
  const { rows } = await sql.query<{ verdict: BeginVerdict }>('SELECT begin_payout($1, $2) AS verdict', [
    payoutId,
    nextLookAt,
  ])
  return rows[0]!.verdict
}

/**
 * Returns what to book in place of a further try to send, if the hoster was frozen, or its account has changed, since the first
 * one: begin_payout checks that only once, and a provider may be down for days. A try that was under way may still arrive, so the
 * payout fails only after all tries from before the change are over. Null: send.
 */
async function readHold(sql: Sql, payoutId: string, nowMs: number): Promise<PayoutReport | null> {
  const { rows } = await sql.query<{ frozenAt: Date | null; changedAt: Date | null; isSameAccount: boolean }>(
    `SELECT h.payout_frozen_at AS "frozenAt", a.updated_at AS "changedAt",
       coalesce((a.driver, a.destination, a.state) = (p.driver, p.destination, 'ready'), false) AS "isSameAccount"
     FROM payout p JOIN hoster h USING (hoster_id) LEFT JOIN hoster_account a USING (hoster_id) WHERE p.payout_id = $1`,
    [payoutId],
  )
  const { frozenAt, changedAt, isSameAccount } = rows[0]!
  if (frozenAt === null && isSameAccount) return null
  const since = frozenAt ?? changedAt
  if (since !== null && nowMs - since.getTime() < TRY_MS) return { state: 'pending' }
  const failure = frozenAt === null ? 'the payout account has changed since it was prepared' : 'the hoster is frozen'
  return { state: 'failed', failure }
}

/** No try takes as long: a call of a provider ends after 10 s, and is repeated twice. */
const TRY_MS = 10 * 60_000

/** Sends a payout that the provider does not know, and reports what became of it. */
async function send(sql: Sql, driver: PayoutDriver, order: PayoutOrder): Promise<PayoutReport> {
  try {
    const ref = (await driver.pay([order])).refs.get(order.payoutId)!
    failpoint('payout-sent')
    await sql.query('SELECT note_payout_sent($1, $2)', [order.payoutId, ref])
    return await driver.look({ ...order, providerRef: ref })
  } catch (error) {
    if (!(error instanceof PayoutRefused)) throw error
    // Another node may have sent it in the meantime, and then this try was refused for lack of money.
    const report = await driver.look(order)
    return report.state === 'absent' ? { state: 'failed', failure: error.message } : report
  }
}

async function bookReport(
  sql: Sql,
  { payoutId, driver, version, createdAt, providerRef }: Payout,
  report: PayoutReport,
  nowMs: number,
): Promise<'booked' | 'unchanged' | 'mismatch' | 'no_payout' | 'stale'> {
  const { rows } = await sql.query<{ result: 'booked' | 'unchanged' | 'mismatch' | 'no_payout' | 'stale' }>(
    'SELECT book_payout_report($1, $2, $3, $4, $5) AS result',
    [payoutId, driver, version, JSON.stringify(report), nextLookAt(report.state, createdAt.getTime(), nowMs)],
  )
  // After the report, which locks the hoster before the payout: two nodes that lock them in different orders deadlock.
  if (report.state === 'paid' && providerRef === null) {
    await sql.query('SELECT note_payout_sent($1, $2)', [payoutId, report.ref])
  }
  return rows[0]!.result
}

function orderOf(payout: Payout): PayoutOrder {
  return { ...payout, amountMinor: payout.amountNanos / NANOS_PER_CENT }
}

const NANOS_PER_CENT = 10_000_000n
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** After a crash, the job looks for a transfer this much later. */
const FIRST_LOOK_MS = 2 * MINUTE_MS
/** How long transfers are watched for a reversal. */
const WATCHED_MS = 200 * DAY_MS

/** The provider reports changes itself. These looks find what was lost, less often the older a payout is. */
function nextLookAt(state: PayoutReport['state'], createdMs: number, nowMs: number): Date | null {
  const ageMs = Math.max(nowMs - createdMs, 0)
  if (state === 'paid') return ageMs > WATCHED_MS ? null : new Date(nowMs + Math.min(HOUR_MS + ageMs / 2, 7 * DAY_MS))
  if (state === 'failed') return null
  return new Date(nowMs + Math.min(FIRST_LOOK_MS + ageMs / 2, DAY_MS))
}

/** @param nowMs null: all that may still change */
async function duePayouts(sql: Sql, drivers: readonly string[], nowMs: number | null): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `SELECT payout_id AS id FROM payout
      WHERE next_look_at IS NOT NULL AND ($2::timestamptz IS NULL OR next_look_at <= $2) AND driver = ANY ($1)
      ORDER BY next_look_at LIMIT $3`,
    [drivers, nowMs === null ? null : new Date(nowMs), nowMs === null ? null : DUE_MAX],
  )
  return rows.map(({ id }) => id)
}

async function waitingEvents(sql: Sql) {
  const { rows } = await sql.query<{ driver: string; eventId: string; type: string; ref: string }>(
    `SELECT driver, event_id AS "eventId", type, provider_ref AS ref FROM payout_event
      WHERE handled_at IS NULL ORDER BY received_at LIMIT $1`,
    [DUE_MAX],
  )
  return rows
}
