import { randomUUID } from 'node:crypto'
import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { CreditEvidence } from '../ledger/credit-evidence.ts'
import { compareCharges } from './compare-charges.ts'
import {
  ChargeRefused,
  nanosPerMinor,
  type PaymentDriver,
  type PaymentOrder,
  type PaymentReport,
  type ProviderRefunds,
  RefundRefused,
  type ReportedMethod,
  type StartedPayment,
} from './payment-driver.ts'
import { promoteAfterFirstCredit } from './promote.ts'
import { createProviderSync, DUE_MAX, nextLookAt, type ProviderSync, type Reconciliation } from './provider-sync.ts'

/** Asks providers for payments and books the difference. Nothing else books payments of providers. */
export interface PaymentSync extends ProviderSync<PaymentDriver, Booked> {
  /** Besides, repeats refunds without an answer, and compares the charges of the providers with the payments. */
  reconcile(options?: { readonly isComplete?: boolean }): Promise<Reconciliation>
}

export type Booked = 'booked' | 'unchanged' | 'mismatch' | 'no_payment'

export function createPaymentSync(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PaymentDriver[]
  readonly evidence: Pick<CreditEvidence, 'add'>
  readonly log: Pick<Log, 'warn'>
}): PaymentSync {
  const { pool, clock, evidence, log } = deps
  const engine = createProviderSync<PaymentDriver, DuePayment, LookedAt, Booked>(deps, {
    name: 'payment',
    bookedResults: ['booked'],
    absent: 'no_payment',
    find: paymentId => readDue(pool, paymentId),
    async look(driver, payment, nowMs) {
      // The provider does not know a payment of its other mode.
      if (payment.providerRef !== null && payment.isLive !== driver.isLive) return 'no_payment'
      const providerRef = payment.providerRef ?? (await startAgain(pool, driver, payment, nowMs))
      if (providerRef === null) return 'booked'
      return { payment, providerRef, report: await driver.provider.look(providerRef) }
    },
    async book(sql, { payment, providerRef, report }, nowMs) {
      const result = await bookReport(sql, payment, report, nowMs)
      if (result === 'stale') return result
      if (result === 'booked' && report.state === 'paid') await prove(sql, evidence, payment, providerRef, report)
      if (report.method !== null) await saveMethod(sql, payment, report.method)
      if (report.charge_ref !== null && result !== 'mismatch') {
        await sql.query('SELECT note_payment_charge($1, $2)', [payment.paymentId, report.charge_ref])
      }
      return result
    },
    idOf: (driver, ref) => driver.provider.paymentIdOf(ref),
  })
  const { drivers, book, handleEvent } = engine
  return {
    book,
    handleEvent,
    async reconcile({ isComplete = false } = {}) {
      const { counts, attempt } = engine.counting()
      if (drivers.length === 0) return counts
      await engine.handleWaitingEvents(attempt)
      for (const refund of await waitingRefunds(pool, drivers)) {
        const refunds = drivers.find(({ name }) => name === refund.driver)?.provider.refunds
        if (refunds == null) continue
        await attempt({ reversalId: refund.reversalId }, () => payRefund(pool, { book }, refunds, refund))
      }
      await engine.bookDue(attempt, isComplete)
      for (const { name, isLive, provider } of drivers) {
        if (provider.moves === null) continue
        const driver = { name, isLive, provider, moves: provider.moves }
        await attempt({ compared: name }, async () => {
          await compareCharges({ pool, clock, log, book, driver }, isComplete)
          return 'unchanged'
        })
      }
      return counts
    },
  }
}

interface LookedAt {
  readonly payment: DuePayment
  readonly providerRef: string
  readonly report: PaymentReport
}

interface DuePayment {
  readonly paymentId: string
  readonly customerId: string
  readonly driver: string
  readonly providerRef: string | null
  readonly version: bigint
  readonly amountNanos: bigint
  readonly amountMinor: bigint
  readonly currency: string
  readonly reference: string
  readonly isLive: boolean
  readonly createdAt: Date
  /** The payer has until then; null: the payment needs no payer. */
  readonly expiresAt: Date | null
  readonly accountRef: string | null
  /** The payment method of an automatic top-up; null for others. */
  readonly methodRef: string | null
  /** Whether automatic top-ups are on, with this method. */
  readonly isAutoOn: boolean
}

async function readDue(sql: Sql, paymentId: string): Promise<DuePayment | undefined> {
  const { rows } = await sql.query<DuePayment>(
    `SELECT payment_id AS "paymentId", p.customer_id AS "customerId", p.driver, p.provider_ref AS "providerRef", version,
       amount_nanos AS "amountNanos", amount_minor AS "amountMinor", currency, reference, is_live AS "isLive", p.created_at AS "createdAt",
       p.expires_at AS "expiresAt", coalesce(m.account_ref, a.provider_ref) AS "accountRef", m.provider_ref AS "methodRef",
       EXISTS (SELECT FROM auto_top_up t WHERE t.customer_id = p.customer_id AND t.method_id = p.method_id AND paused_at IS NULL) AS "isAutoOn"
     FROM payment p LEFT JOIN payment_method m USING (method_id)
       LEFT JOIN payment_account a ON a.customer_id = p.customer_id AND a.driver = p.driver
     WHERE payment_id::text = $1`,
    [paymentId],
  )
  return rows[0]
}

/**
 * Starts a payment that has no name at the provider yet: a charge of a saved method, or one without an answer. Adopts
 * what an earlier attempt has made, in whatever state: idempotency keys are forgotten, often after a day. Returns null
 * for a payment that has ended without a charge.
 */
async function startAgain(sql: Sql, driver: PaymentDriver, payment: DuePayment, nowMs: number): Promise<string | null> {
  const { paymentId, methodRef } = payment
  const find = () => findEarlier(driver, payment)
  const close = async (state: 'failed' | 'expired' | 'cancelled', failure: string | null) => {
    await sql.query('SELECT close_payment($1, $2, $3)', [paymentId, state, failure])
    return null
  }
  if (payment.isLive !== driver.isLive) return close('cancelled', 'The payment provider was changed.')
  let started = await find()
  if (started === null) {
    // No new attempt for what nobody wants any more.
    if (payment.expiresAt !== null && payment.expiresAt.getTime() <= nowMs) return close('expired', null)
    if (methodRef !== null && !payment.isAutoOn) return close('cancelled', 'Automatic top-ups were turned off.')
    const order = { ...payment, savesMethod: false }
    try {
      started =
        methodRef === null
          ? await driver.start(order)
          : { providerRef: await chargeSaved(driver, order, methodRef), redirectUrl: null }
    } catch (error) {
      if (!(error instanceof ChargeRefused)) throw error
      // Another node may have charged in the meantime.
      started = await find()
      if (started === null) return close('failed', error.message)
    }
  }
  failpoint('payment-charged')
  await sql.query('SELECT note_payment_started($1, $2, $3)', [paymentId, started.providerRef, started.redirectUrl])
  return started.providerRef
}

function chargeSaved({ provider }: PaymentDriver, order: PaymentOrder, methodRef: string): Promise<string> {
  if (provider?.savedMethods == null) throw new ChargeRefused('The payment provider charges no saved methods any more.')
  return provider.savedMethods.charge(order, methodRef)
}

/** Returns what an earlier attempt has made at the provider of a driver. Call it before any attempt but the first. */
export async function findEarlier(
  driver: PaymentDriver,
  payment: Pick<DuePayment, 'paymentId' | 'accountRef' | 'createdAt' | 'expiresAt' | 'methodRef'>,
): Promise<StartedPayment | null> {
  const { paymentId, accountRef, createdAt: startedAt, expiresAt: endedAt, methodRef } = payment
  return (
    (await driver.provider?.find({ paymentId, accountRef, startedAt, endedAt, isCharge: methodRef !== null })) ?? null
  )
}

/** Keeps a method for automatic top-ups. Turns none on. */
async function saveMethod(sql: Sql, { customerId, driver }: DuePayment, method: ReportedMethod): Promise<void> {
  await sql.query(
    `INSERT INTO payment_account (customer_id, driver, provider_ref) VALUES ($1, $2, $3)
     ON CONFLICT (customer_id, driver) DO UPDATE SET provider_ref = EXCLUDED.provider_ref`,
    [customerId, driver, method.accountRef],
  )
  await sql.query(
    `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires, identity, account_ref)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (customer_id, driver, provider_ref) DO NOTHING`,
    [
      randomUUID(),
      customerId,
      driver,
      method.ref,
      method.brand,
      method.last4,
      method.expires,
      method.identity,
      method.accountRef,
    ],
  )
}

function bookReport(
  sql: Sql,
  { paymentId, customerId, driver, version, createdAt }: DuePayment,
  report: PaymentReport,
  nowMs: number,
): Promise<Booked | 'stale'> {
  return promoteAfterFirstCredit(sql, customerId, async () => {
    const { result } = await queryRow<{ result: Booked | 'stale' }>(
      sql,
      'SELECT book_payment_report($1, $2, $3, $4, $5) AS result',
      [paymentId, driver, version, JSON.stringify(report), lookAgainAt(report.state, createdAt, nowMs)],
    )
    return result
  })
}

/** Proves the credit with what the provider reports. */
function prove(
  sql: Sql,
  evidence: Pick<CreditEvidence, 'add'>,
  { paymentId }: DuePayment,
  providerRef: string,
  { amount_minor: amountMinor, currency, is_live: isLive }: PaymentReport,
): Promise<void> {
  // A report without an amount or a currency is a mismatch, and gives nothing.
  const amountNanos = BigInt(amountMinor!) * nanosPerMinor[currency!]!
  return evidence.add(sql, 'payment', paymentId, { amountNanos, providerRef, amountMinor, currency, isLive })
}

function lookAgainAt(state: PaymentReport['state'], createdAt: Date, nowMs: number): Date | null {
  if (state === 'open' || state === 'processing' || state === 'paid')
    return nextLookAt(state === 'paid', createdAt, nowMs)
  // Payers may still pay by what they have opened before.
  return nowMs - createdAt.getTime() > 3 * DAY_MS ? null : new Date(nowMs + DAY_MS / 4)
}

interface WaitingRefund {
  readonly reversalId: string
  readonly paymentId: string
  readonly driver: string
  readonly providerRef: string
  readonly askedMinor: bigint
}

/** Leaves out refunds of payments in the other mode of a provider, which does not know them, as `bookDue` does. */
async function waitingRefunds(sql: Sql, drivers: readonly PaymentDriver[]): Promise<WaitingRefund[]> {
  const { rows } = await sql.query<WaitingRefund>(
    `SELECT r.reversal_id AS "reversalId", payment_id AS "paymentId", p.driver, p.provider_ref AS "providerRef", r.asked_minor AS "askedMinor"
       FROM payment_reversal r JOIN payment p USING (payment_id)
      WHERE r.state = 'asked' AND r.provider_ref IS NULL AND p.provider_ref IS NOT NULL
        AND (p.driver, p.is_live) IN (SELECT * FROM unnest($1::text[], $2::boolean[]))
      ORDER BY r.at LIMIT $3`,
    [drivers.map(({ name }) => name), drivers.map(({ isLive }) => isLive), DUE_MAX],
  )
  return rows
}

/** Asks the provider for a refund after its credit was taken, and gives the credit back if the provider refuses. */
export async function payRefund(
  sql: Sql,
  sync: Pick<PaymentSync, 'book'>,
  refunds: ProviderRefunds,
  { reversalId, paymentId, providerRef, askedMinor }: WaitingRefund,
): Promise<Booked> {
  try {
    await refunds.refund(providerRef, askedMinor, reversalId)
  } catch (error) {
    if (!(error instanceof RefundRefused)) throw error
    await sql.query('SELECT refuse_refund($1)', [reversalId])
    return 'booked'
  }
  failpoint('payment-refunded')
  return sync.book(paymentId)
}
