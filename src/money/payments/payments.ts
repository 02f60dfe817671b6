import { randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import type { TopUpDriverName } from '../../base/domain/money-drivers.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { CreditEvidence } from '../ledger/credit-evidence.ts'
import { nanosPerMinor, type PaymentDriver, ProviderUnavailable, type StartedPayment } from './payment-driver.ts'
import { findEarlier } from './payment-sync.ts'
import { promoteAfterFirstCredit } from './promote.ts'
import { paymentReference } from './random-code.ts'
import { findPayment, listPayments, type Payment } from './read-payments.ts'
import { redeemVoucher } from './vouchers.ts'

const CURRENCY = 'usd'

export interface TopUpOrder {
  readonly customerId: string
  readonly personId: string
  /** The address of the client. */
  readonly address: string
  readonly amountNanos: Nanos
  /** Null: the only driver, or the first one. */
  readonly driver: TopUpDriverName | null
  readonly savesMethod: boolean
  readonly idempotencyKey: string
}

/** Payments of customers. Each change is in the audit log. All methods reject with ApiError. */
export interface Payments {
  readonly drivers: readonly PaymentDriver[]
  readonly limits: TopUpLimits
  start(order: TopUpOrder): Promise<Payment>
  list(customerId: string, page: { limit: number; after: string | null }): Promise<Payment[]>
  one(customerId: string, paymentId: string): Promise<Payment>
  cancel(customerId: string, paymentId: string, by: Acting): Promise<Payment>
  redeem(order: { customerId: string; personId: string; code: string; address: string }): Promise<Payment>
  instructionsFor(payment: Payment): string | null
}

export interface TopUpLimits {
  readonly minNanos: Nanos
  readonly maxNanos: Nanos
}

export function createPayments(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PaymentDriver[]
  readonly limits: TopUpLimits
  readonly evidence: CreditEvidence
}): Payments {
  const { pool, clock, drivers, limits, evidence } = deps

  function driverOf(name: TopUpDriverName | null): PaymentDriver {
    const driver = name === null ? drivers[0] : drivers.find(each => each.name === name)
    if (driver !== undefined) return driver
    const names = drivers.map(each => each.name).join(', ')
    throw new ApiError('invalid_value', {
      param: 'driver',
      message: drivers.length === 0 ? sayRefusal('refusal.no_payments') : `"driver" must be one of ${names}.`,
    })
  }

  async function one(customerId: string, paymentId: string): Promise<Payment> {
    const payment = await findPayment(pool, paymentId, customerId).catch(refuseOutage)
    if (payment === undefined) throw new ApiError('payment_not_found')
    return payment
  }

  return {
    drivers,
    limits,
    one,
    async start(order) {
      const driver = driverOf(order.driver)
      requireAmount(order.amountNanos, limits)
      const amountMinor = order.amountNanos / nanosPerMinor[CURRENCY]
      const nowMs = clock.epochMs()
      const asked = randomUUID()
      const { verdict, payment: paymentId } = await transaction(pool, async sql => {
        const started = await queryRow<{ verdict: StartVerdict; payment: string }>(
          sql,
          'SELECT * FROM start_payment($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)',
          [
            asked,
            order.customerId,
            driver.name,
            order.amountNanos,
            amountMinor,
            CURRENCY,
            driver.isLive,
            paymentReference(),
            order.idempotencyKey,
            order.personId,
            new Date(nowMs + driver.openMs),
            driver.provider === null ? null : new Date(nowMs + FIRST_LOOK_MS),
          ],
        )
        if (started.verdict === 'started') {
          const { personId, customerId, address, amountNanos } = order
          const detail = { driver: driver.name, amount_usd: usdText(amountNanos) }
          const subject = started.payment
          await noteAction(sql, { action: 'payment.started', personId, address, subject, customerId, detail })
        }
        return started
      }).catch(refuseOutage)
      if (verdict === 'no_account') throw new ApiError('customer_not_found')
      if (verdict === 'key_reused') throw new ApiError('idempotency_key_reused', { param: 'Idempotency-Key' })
      if (verdict === 'too_many') {
        throw new ApiError('rate_limit_exceeded', {
          message: sayRefusal('refusal.too_many_top_ups'),
          retryAfterS: 60,
        })
      }
      const payment = await one(order.customerId, paymentId)
      // An earlier attempt may have had no answer. After the time of the payer, only the job looks for what it made.
      const isPayable = payment.expiresAt === null || payment.expiresAt.getTime() > nowMs
      if (payment.state === 'open' && payment.providerRef === null && isPayable) {
        const { reference, amountNanos } = payment
        const { customerId } = order
        const savesMethod = order.savesMethod && driver.provider?.savedMethods != null
        const accountRef = await readAccountRef(pool, customerId, driver.name).catch(refuseOutage)
        const started = await orRefuse(async () => {
          const earlier =
            verdict === 'started' ? null : await findEarlier(driver, { ...payment, accountRef, methodRef: null })
          return (
            earlier ??
            driver.start({
              paymentId,
              customerId,
              amountNanos,
              amountMinor,
              currency: CURRENCY,
              reference,
              savesMethod,
              accountRef,
            })
          )
        })
        failpoint('payment-started')
        if (started.providerRef !== null) {
          await pool
            .query('SELECT note_payment_started($1, $2, $3)', [paymentId, started.providerRef, started.redirectUrl])
            .catch(refuseOutage)
        }
      }
      return one(order.customerId, paymentId)
    },
    list: (customerId, page) => listPayments(pool, { customerId, ...page }).catch(refuseOutage),
    async cancel(customerId, paymentId, by) {
      const payment = await one(customerId, paymentId)
      if (payment.driver !== 'manual') {
        throw new ApiError('invalid_value', {
          param: 'id',
          message: sayRefusal('refusal.top_up_ends_itself'),
        })
      }
      await transaction(pool, async sql => {
        const { closed } = await queryRow<{ closed: boolean }>(
          sql,
          "SELECT close_payment($1, 'cancelled', NULL) AS closed",
          [paymentId],
        )
        if (closed) await noteAction(sql, { ...by, action: 'payment.cancelled', subject: paymentId, customerId })
      }).catch(refuseOutage)
      return one(customerId, paymentId)
    },
    async redeem({ customerId, personId, code, address }) {
      const paymentId = await redeemVoucher(
        work => transaction(pool, work).catch(refuseOutage),
        { customerId, personId, code, address, nowMs: clock.epochMs() },
        promoteAfterFirstCredit,
        evidence,
      )
      return one(customerId, paymentId)
    },
    instructionsFor(payment) {
      if (payment.state !== 'open') return null
      return drivers.find(({ name }) => name === payment.driver)?.instructionsFor(payment) ?? null
    },
  }
}

/** Returns the customer as the provider names it. */
async function readAccountRef(sql: Sql, customerId: string, driver: TopUpDriverName): Promise<string | null> {
  const { rows } = await sql.query<{ ref: string }>(
    'SELECT provider_ref AS ref FROM payment_account WHERE customer_id = $1 AND driver = $2',
    [customerId, driver],
  )
  return rows[0]?.ref ?? null
}

async function orRefuse(start: () => Promise<StartedPayment>): Promise<StartedPayment> {
  try {
    return await start()
  } catch (error) {
    if (error instanceof ProviderUnavailable) throw new ApiError('payment_provider_unavailable', { internal: error })
    throw error
  }
}

type StartVerdict = 'started' | 'existing' | 'key_reused' | 'too_many' | 'no_account'

/** An event of the provider usually comes first. */
const FIRST_LOOK_MS = 120_000

function requireAmount(nanos: Nanos, { minNanos, maxNanos }: TopUpLimits): void {
  if (nanos >= minNanos && nanos <= maxNanos && nanos % nanosPerMinor[CURRENCY] === 0n) return
  throw new ApiError('invalid_value', {
    param: 'amount_usd',
    message: sayRefusal('refusal.top_up_amount', { min: usdText(minNanos), max: usdText(maxNanos) }),
  })
}
