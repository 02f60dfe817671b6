import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { MINUTE_MS } from '../../base/domain/durations.ts'
import { valueAt } from '../../base/runtime/collections.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import {
  createProviderSync,
  FIRST_LOOK_MS,
  nextLookAt,
  type ProviderSync,
  type Reconciliation,
} from '../payments/provider-sync.ts'
import { refreshPayoutAccount } from './payout-accounts.ts'
import type { PayoutRules } from './payout-batches.ts'
import { type PayoutDriver, type PayoutOrder, PayoutRefused, type PayoutReport } from './payout-driver.ts'
import { findPayout, type Payout, type PayoutBatch, payoutsOfBatch } from './read-payouts.ts'

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

/**
 * Sends approved payouts, asks providers for them, and books the difference. Nothing else books payouts of providers.
 */
export interface PayoutSync extends ProviderSync<PayoutDriver, PayoutBooked> {
  /** Whether the driver of the batch is set up, in its mode. */
  maySettle(batch: Pick<PayoutBatch, 'driver' | 'isLive'>): boolean
  /**
   * Sends what is approved in a batch and was not sent, and asks for the rest. Each payout is paid once, however often
   * this runs.
   */
  settle(batchId: string): Promise<SettledBatch>
}

export function createPayoutSync(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PayoutDriver[]
  readonly rules: Pick<PayoutRules, 'accountWaitHours'>
  readonly log: Pick<Log, 'warn'>
}): PayoutSync {
  const { pool, drivers, rules, log } = deps
  const engine = createProviderSync<PayoutDriver, Payout, LookedAt, PayoutBooked>(deps, {
    name: 'payout',
    bookedResults: ['booked', 'cancelled'],
    absent: 'no_payout',
    find: payoutId => findPayout(pool, payoutId),
    async look(driver, payout, nowMs) {
      const { payoutId, state, isLive } = payout
      // The provider does not know it, and one of the test mode must not become real money.
      if (isLive !== driver.isLive) return 'no_payout'
      if (state === 'approved') {
        const verdict = await begin(pool, payoutId, new Date(nowMs + FIRST_LOOK_MS))
        if (verdict === 'cancelled' || verdict === 'not_approved') return verdict
        failpoint('payout-begun')
        return 'stale'
      }
      const order = orderOf(payout)
      const report = await driver.look(order)
      if (report.state !== 'absent' || state !== 'sending') return { payout, report }
      return { payout, report: (await readHold(pool, payoutId, nowMs)) ?? (await send(pool, driver, order)) }
    },
    book: (sql, { payout, report }, nowMs) => bookReport(sql, payout, report, nowMs),
    async afterBooking(driver, { payout: { payoutId, destination }, report }, nowMs) {
      // An account that is closed, or lacks something, is left out of the next batch.
      if (report.state !== 'failed') return
      await refreshPayoutAccount(pool, driver, destination, { ...rules, nowMs }).catch(error =>
        log.warn({ err: error, payoutId }, 'the account of a payout that failed could not be read'),
      )
    },
    async idOf(driver, ref, nowMs) {
      const subject = await driver.provider.subjectOf(ref)
      if (subject === null || 'payoutId' in subject) return subject?.payoutId ?? null
      await refreshPayoutAccount(pool, driver, subject.destination, { ...rules, nowMs })
      return null
    },
  })
  const { book, handleEvent } = engine
  return {
    book,
    handleEvent,
    maySettle: ({ driver, isLive }) => drivers.some(each => each.name === driver && each.isLive === isLive),
    async settle(batchId) {
      const { counts, attempt } = engine.counting()
      const payouts = await payoutsOfBatch(pool, batchId)
      const bank = drivers.find(({ provider }) => provider === null)
      const forBank: Payout[] = []
      for (const payout of payouts) {
        const { payoutId, driver } = payout
        // No bank knows the account of a provider, also of one that is not set up any more.
        if (driver !== bank?.name) await attempt({ payoutId }, () => book(payoutId))
        else if ((await begin(pool, payoutId, null)) === 'begun') forBank.push(payout)
      }
      const file = forBank.length === 0 || bank === undefined ? null : (await bank.pay(forBank.map(orderOf))).file
      return { ...counts, file }
    },
    async reconcile({ isComplete = false } = {}) {
      const { counts, attempt } = engine.counting()
      await engine.handleWaitingEvents(attempt)
      await engine.bookDue(attempt, isComplete)
      return counts
    },
  }
}

interface LookedAt {
  readonly payout: Payout
  readonly report: PayoutReport
}

type BeginVerdict = 'begun' | 'cancelled' | 'not_approved' | 'ended' | 'no_payout'

async function begin(sql: Sql, payoutId: string, nextLookAt: Date | null): Promise<BeginVerdict> {
  const { verdict } = await queryRow<{ verdict: BeginVerdict }>(sql, 'SELECT begin_payout($1, $2) AS verdict', [
    payoutId,
    nextLookAt,
  ])
  return verdict
}

/**
 * Returns what to book in place of a further try to send, if the hoster was frozen, or its account has changed, since
 * the first one: begin_payout checks that only once, and a provider may be down for days. A try that was under way may
 * still arrive, so the payout fails only after all tries from before the change are over. Null: send.
 */
async function readHold(sql: Sql, payoutId: string, nowMs: number): Promise<PayoutReport | null> {
  const { frozenAt, changedAt, isSameAccount } = await queryRow<{
    frozenAt: Date | null
    changedAt: Date | null
    isSameAccount: boolean
  }>(
    sql,
    `SELECT h.payout_frozen_at AS "frozenAt", a.updated_at AS "changedAt",
       coalesce((a.driver, a.destination, a.state) = (p.driver, p.destination, 'ready'), false) AS "isSameAccount"
     FROM payout p JOIN hoster h USING (hoster_id) LEFT JOIN hoster_account a USING (hoster_id) WHERE p.payout_id = $1`,
    [payoutId],
  )
  if (frozenAt === null && isSameAccount) return null
  const since = frozenAt ?? changedAt
  if (since !== null && nowMs - since.getTime() < TRY_MS) return { state: 'pending' }
  const failure = frozenAt === null ? 'the payout account has changed since it was prepared' : 'the hoster is frozen'
  return { state: 'failed', failure }
}

/** No try takes as long: a call of a provider ends after 10 s, and is repeated twice. */
const TRY_MS = 10 * MINUTE_MS

/** Sends a payout that the provider does not know, and reports what became of it. */
async function send(sql: Sql, driver: PayoutDriver, order: PayoutOrder): Promise<PayoutReport> {
  try {
    const { refs } = await driver.pay([order])
    const ref = valueAt(refs, order.payoutId)
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
  const lookAgainAt = report.state === 'failed' ? null : nextLookAt(report.state === 'paid', createdAt, nowMs)
  const { result } = await queryRow<{ result: 'booked' | 'unchanged' | 'mismatch' | 'no_payout' | 'stale' }>(
    sql,
    'SELECT book_payout_report($1, $2, $3, $4, $5) AS result',
    [payoutId, driver, version, JSON.stringify(report), lookAgainAt],
  )
  // After the report, which locks the hoster before the payout: two nodes that lock them in different orders deadlock.
  if (report.state === 'paid' && providerRef === null) {
    await sql.query('SELECT note_payout_sent($1, $2)', [payoutId, report.ref])
  }
  return result
}

function orderOf(payout: Payout): PayoutOrder {
  return { ...payout, amountMinor: payout.amountNanos / NANOS_PER_CENT }
}

const NANOS_PER_CENT = 10_000_000n
