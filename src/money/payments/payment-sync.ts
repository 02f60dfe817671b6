import { randomUUID } from 'node:crypto'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import type { Clock } from '../../base/runtime/clock.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { CreditEvidence } from '../ledger/credit-evidence.ts'
import { compareCharges } from './compare-charges.ts'
import { countAttempts, type Reconciliation } from './count-attempts.ts'
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

/** Asks providers for payments and books the difference. Nothing else books payments of providers. */
export interface PaymentSync {
  /** Asks for one payment. @param event handled with it, in the same transaction */
  book(paymentId: string, event?: EventKey): Promise<Booked>
  /** Stores an event, asks for what it hints at, and books it. A repeated event changes nothing. */
  handleEvent(driver: PaymentDriver, event: { eventId: string; type: string; ref: string }): Promise<Booked>
  /**
   * Asks for all payments that are due, repeats refunds without an answer, handles events that wait, and compares the charges of the providers with
   * the payments.
   */
  reconcile(options?: { readonly isComplete?: boolean }): Promise<Reconciliation>
}

interface EventKey {
  readonly driver: string
  readonly eventId: string
}

export type Booked = 'booked' | 'unchanged' | 'mismatch' | 'no_payment'

const TRIES = 5
const DUE_MAX = 200

export function createPaymentSync(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PaymentDriver[]
  readonly evidence: Pick<CreditEvidence, 'add'>
  readonly log: Pick<Log, 'warn'>
}): PaymentSync {
  const { pool, clock, drivers, evidence, log } = deps
  const sync: PaymentSync = {
    async book(paymentId, event) {
      for (let tries = 0; tries < TRIES; tries++) {
        const payment = await readDue(pool, paymentId)
        const driver = drivers.find(({ name }) => name === payment?.driver)
        if (payment === undefined || driver?.provider === undefined) return 'no_payment'
        const providerRef = payment.providerRef ?? (await startAgain(pool, driver, payment, clock.epochMs()))
        if (providerRef === null) return 'booked'
        const report = await driver.provider.look(providerRef)
        failpoint('payment-looked')
        const booked = await transaction(pool, async sql => {
          const result = await bookReport(sql, payment, report, clock.epochMs())
          if (result === 'booked' && report.state === 'paid') await prove(sql, evidence, payment, providerRef, report)
          if (report.method !== null && result !== 'stale') await saveMethod(sql, payment, report.method)
          if (report.charge_ref !== null && result !== 'stale' && result !== 'mismatch') {
            await sql.query('SELECT note_payment_charge($1, $2)', [paymentId, report.charge_ref])
          }
          if (event !== undefined && result !== 'stale') {
            await sql.query('SELECT finish_payment_event($1, $2)', [event.driver, event.eventId])
          }
          failpoint('payment-booking')
          return result
        })
        failpoint('payment-booked')
        if (booked === 'stale') continue
        if (booked === 'mismatch') log.warn({ paymentId, report }, 'a payment differs from what its provider reports')
        return booked
      }
      throw new Error(`payment ${paymentId} was booked by others ${TRIES} times in a row`)
    },
    async handleEvent(driver, { eventId, type, ref }) {
      const { rows } = await pool.query<{ waits: boolean }>('SELECT note_payment_event($1, $2, $3, $4) AS waits', [
        driver.name,
        eventId,
        type,
        ref,
      ])
      failpoint('payment-event-noted')
      if (!rows[0]!.waits) return 'unchanged'
      const key = { driver: driver.name, eventId }
      const paymentId = await driver.provider!.paymentIdOf(ref)
      const result = paymentId === null ? 'no_payment' : await sync.book(paymentId, key)
      // An account of the provider may serve other programs too.
      if (result === 'no_payment') await pool.query('SELECT finish_payment_event($1, $2)', [key.driver, key.eventId])
      return result
    },
    async reconcile({ isComplete = false } = {}) {
      const { counts, attempt } = countAttempts<Booked>(log, 'a payment could not be reconciled; trying again', [
        'booked',
      ])
      const withProvider = drivers.filter(each => each.provider !== undefined)
      if (withProvider.length === 0) return counts
      for (const { driver, eventId, type, ref } of await waitingEvents(pool)) {
        const found = withProvider.find(({ name }) => name === driver)
        if (found === undefined) continue
        await attempt({ eventId }, () => sync.handleEvent(found, { eventId, type, ref }))
      }
      for (const refund of await waitingRefunds(pool)) {
        const refunds = withProvider.find(({ name }) => name === refund.driver)?.provider?.refunds
        if (refunds == null) continue
        await attempt({ reversalId: refund.reversalId }, () => payRefund(pool, sync, refunds, refund))
      }
      const names = withProvider.map(({ name }) => name)
      for (const paymentId of await duePayments(pool, names, isComplete ? null : clock.epochMs())) {
        await attempt({ paymentId }, () => sync.book(paymentId))
      }
      for (const { name, isLive, provider } of withProvider) {
        if (provider?.moves == null) continue
        const driver = { name, isLive, provider, moves: provider.moves }
        await attempt({ compared: name }, async () => {
          await compareCharges({ pool, clock, log, book: sync.book, driver }, isComplete)
          return 'unchanged'
        })
      }
      return counts
    },
  }
  return sync
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
 * Starts a payment that has no name at the provider yet: a charge of a saved method, or one without an answer. Adopts what an earlier attempt has
 * made, in whatever state: idempotency keys are forgotten, often after a day. Returns null for a payment that has ended without a charge.
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
    const { rows } = await sql.query<{ result: Booked | 'stale' }>(
      'SELECT book_payment_report($1, $2, $3, $4, $5) AS result',
      [paymentId, driver, version, JSON.stringify(report), nextLookAt(report.state, createdAt.getTime(), nowMs)],
    )
    return rows[0]!.result
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

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Cards can be disputed for 120 days, some for longer. */
const WATCHED_MS = 200 * DAY_MS

/** The provider reports changes itself. These looks find what was lost, less often the older a payment is. */
function nextLookAt(state: PaymentReport['state'], createdMs: number, nowMs: number): Date | null {
  const ageMs = Math.max(nowMs - createdMs, 0)
  if (state === 'open' || state === 'processing') return new Date(nowMs + Math.min(2 * MINUTE_MS + ageMs / 2, DAY_MS))
  if (state === 'paid') return ageMs > WATCHED_MS ? null : new Date(nowMs + Math.min(HOUR_MS + ageMs / 2, 7 * DAY_MS))
  return ageMs > 3 * DAY_MS ? null : new Date(nowMs + 6 * HOUR_MS)
}

/** @param nowMs null: all that may still change */
async function duePayments(sql: Sql, drivers: readonly string[], nowMs: number | null): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>(
    `SELECT payment_id AS id FROM payment
      WHERE next_look_at IS NOT NULL AND ($2::timestamptz IS NULL OR next_look_at <= $2) AND driver = ANY ($1)
      ORDER BY next_look_at LIMIT $3`,
    [drivers, nowMs === null ? null : new Date(nowMs), nowMs === null ? null : DUE_MAX],
  )
  return rows.map(({ id }) => id)
}

async function waitingEvents(sql: Sql) {
  const { rows } = await sql.query<{ driver: string; eventId: string; type: string; ref: string }>(
    `SELECT driver, event_id AS "eventId", type, provider_ref AS ref FROM payment_event
      WHERE handled_at IS NULL ORDER BY received_at LIMIT $1`,
    [DUE_MAX],
  )
  return rows
}

interface WaitingRefund {
  readonly reversalId: string
  readonly paymentId: string
  readonly driver: string
  readonly providerRef: string
  readonly askedMinor: bigint
}

async function waitingRefunds(sql: Sql): Promise<WaitingRefund[]> {
  const { rows } = await sql.query<WaitingRefund>(
    `SELECT r.reversal_id AS "reversalId", payment_id AS "paymentId", p.driver, p.provider_ref AS "providerRef", r.asked_minor AS "askedMinor"
       FROM payment_reversal r JOIN payment p USING (payment_id)
      WHERE r.state = 'asked' AND r.provider_ref IS NULL AND p.provider_ref IS NOT NULL ORDER BY r.at LIMIT $1`,
    [DUE_MAX],
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
