import { randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Said } from '../../base/domain/said.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { nanosPerMinor, type PaymentDriver } from './payment-driver.ts'
import type { PaymentSync } from './payment-sync.ts'
import type { TopUpLimits } from './payments.ts'
import { paymentReference } from './random-code.ts'

export interface SavedMethod {
  readonly methodId: string
  readonly driver: string
  readonly brand: string
  readonly last4: string
  readonly expires: string
  readonly createdAt: Date
}

export interface AutoTopUpSettings {
  readonly methodId: string
  readonly thresholdNanos: Nanos
  readonly amountNanos: Nanos
  /** The most that is charged in a UTC month. */
  readonly monthlyMaxNanos: Nanos
}

export interface AutoTopUp extends AutoTopUpSettings {
  readonly consentedAt: Date
  readonly pausedAt: Date | null
  readonly pauseReason: string | null
  /** Charged in this UTC month. */
  readonly chargedNanos: Nanos
}

/**
 * Top-ups that the gateway starts by itself, with the consent of a person. All methods but `run` reject with ApiError.
 */
export interface AutoTopUps {
  read(customerId: string): Promise<AutoTopUp | undefined>
  /** Turns it on, or on again after a pause. Nothing else does. */
  turnOn(customerId: string, by: Acting & { readonly personId: string }, settings: AutoTopUpSettings): Promise<void>
  turnOff(customerId: string, by: Acting): Promise<void>
  methods(customerId: string): Promise<SavedMethod[]>
  /** Also turns off automatic top-ups that use the method. */
  removeMethod(customerId: string, methodId: string, by: Acting): Promise<void>
  /** Starts what is due. Returns how many were started. */
  run(): Promise<number>
}

export function createAutoTopUps(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PaymentDriver[]
  readonly sync: Pick<PaymentSync, 'book'>
  readonly limits: TopUpLimits
  /** Mails a person; without a mail server it does nothing. */
  readonly mail: (mail: { to: string; subject: string; text: string }) => Promise<unknown>
  readonly creditsUrl: (customerId: string) => string
  readonly log: Pick<Log, 'warn'>
}): AutoTopUps {
  const { pool, clock, drivers, sync, limits, log } = deps

  async function start(customerId: string, driver: PaymentDriver): Promise<boolean> {
    const paymentId = randomUUID()
    const nowMs = clock.epochMs()
    const { started } = await queryRow<{ started: boolean }>(
      pool,
      'SELECT start_auto_top_up($1, $2, $3, $4, $5, $6) AS started',
      [paymentId, customerId, driver.isLive, paymentReference(), new Date(nowMs + 2 * MINUTE_MS), new Date(nowMs)],
    )
    if (!started) return false
    // Charges with the id of the payment as idempotency key. After a crash the job does it again.
    await sync.book(paymentId)
    const { state, failure } = await queryRow<{ state: string; failure: string | null }>(
      pool,
      'SELECT state, failure FROM payment WHERE payment_id = $1',
      [paymentId],
    )
    if (state === 'failed') await pause(customerId, failure ?? 'The payment was refused.')
    return true
  }

  async function pause(customerId: string, reason: string): Promise<void> {
    const { paused } = await queryRow<{ paused: boolean }>(pool, 'SELECT pause_auto_top_up($1, $2) AS paused', [
      customerId,
      reason,
    ])
    if (!paused) return
    const { rows: people } = await pool.query<{ email: string }>(
      "SELECT email FROM membership JOIN person USING (person_id) WHERE customer_id = $1 AND role IN ('owner', 'billing')",
      [customerId],
    )
    const text = `An automatic top-up failed, so automatic top-ups are paused: ${reason}\n\nPay, or choose another payment method, at:\n${deps.creditsUrl(customerId)}\n`
    for (const { email } of people) await deps.mail({ to: email, subject: 'Automatic top-up failed', text })
  }

  return {
    async read(customerId) {
      const { rows } = await pool.query<AutoTopUp>(READ, [customerId, new Date(clock.epochMs())]).catch(refuseOutage)
      return rows[0]
    },
    async turnOn(customerId, by, settings) {
      requireSettings(settings, limits)
      await transaction(pool, async sql => {
        if ((await findMethod(sql, customerId, settings.methodId)) === undefined) {
          throw new ApiError('invalid_value', {
            param: 'method_id',
            message: sayRefusal('refusal.no_payment_method'),
          })
        }
        await sql.query(
          `INSERT INTO auto_top_up (customer_id, method_id, threshold_nanos, amount_nanos, monthly_max_nanos, consented_by, consented_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7)
           ON CONFLICT (customer_id) DO UPDATE SET method_id = $2, threshold_nanos = $3, amount_nanos = $4, monthly_max_nanos = $5,
             consented_by = $6, consented_at = $7, paused_at = NULL, pause_reason = NULL`,
          [
            customerId,
            settings.methodId,
            settings.thresholdNanos,
            settings.amountNanos,
            settings.monthlyMaxNanos,
            by.personId,
            new Date(clock.epochMs()),
          ],
        )
        await note(sql, by, 'auto_top_up.on', customerId, {
          threshold_usd: usdText(settings.thresholdNanos),
          amount_usd: usdText(settings.amountNanos),
          monthly_max_usd: usdText(settings.monthlyMaxNanos),
        })
      }).catch(refuseOutage)
    },
    async turnOff(customerId, by) {
      await transaction(pool, async sql => {
        const { rowCount } = await sql.query('DELETE FROM auto_top_up WHERE customer_id = $1', [customerId])
        if (rowCount !== 0) await note(sql, by, 'auto_top_up.off', customerId, {})
      }).catch(refuseOutage)
    },
    async methods(customerId) {
      const { rows } = await pool
        .query<SavedMethod>(`SELECT ${METHOD} WHERE customer_id = $1 AND removed_at IS NULL ORDER BY created_at`, [
          customerId,
        ])
        .catch(refuseOutage)
      return rows
    },
    async removeMethod(customerId, methodId, by) {
      await transaction(pool, async sql => {
        await sql.query('DELETE FROM auto_top_up WHERE customer_id = $1 AND method_id = $2', [customerId, methodId])
        const { rowCount } = await sql.query(
          'UPDATE payment_method SET removed_at = now() WHERE customer_id = $1 AND method_id = $2 AND removed_at IS NULL',
          [customerId, methodId],
        )
        if (rowCount === 0) throw new ApiError('not_found', { message: sayRefusal('refusal.no_payment_method_listed') })
        await note(sql, by, 'payment_method.removed', customerId, { method_id: methodId })
      }).catch(refuseOutage)
    },
    async run() {
      const { rows } = await pool.query<{ customerId: string; driver: string }>(DUE)
      let started = 0
      for (const { customerId, driver: name } of rows) {
        const driver = drivers.find(each => each.name === name)
        if (driver?.provider?.savedMethods == null) continue
        try {
          if (await start(customerId, driver)) started++
        } catch (error) {
          log.warn({ err: error, customerId }, 'an automatic top-up could not be made; trying again')
        }
      }
      for (const { customerId, failure } of (await pool.query<{ customerId: string; failure: string }>(FAILED)).rows) {
        await pause(customerId, failure)
      }
      return started
    },
  }
}

async function note(
  sql: Sql,
  { personId, keyId, address }: Acting,
  action: 'auto_top_up.on' | 'auto_top_up.off' | 'payment_method.removed',
  customerId: string,
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  await noteAction(sql, { action, personId, keyId, address, subject: customerId, customerId, detail })
}

function requireSettings(
  { thresholdNanos, amountNanos, monthlyMaxNanos }: AutoTopUpSettings,
  limits: TopUpLimits,
): void {
  const { minNanos, maxNanos } = limits
  const refuse = (param: string, message: Said) => {
    throw new ApiError('invalid_value', { param, message })
  }
  if (amountNanos < minNanos || amountNanos > maxNanos || amountNanos % nanosPerMinor.usd !== 0n) {
    refuse('amount_usd', sayRefusal('refusal.top_up_amount', { min: usdText(minNanos), max: usdText(maxNanos) }))
  }
  if (thresholdNanos > maxNanos)
    refuse('threshold_usd', sayRefusal('refusal.threshold_too_high', { max: usdText(maxNanos) }))
  if (monthlyMaxNanos < amountNanos) refuse('monthly_max_usd', sayRefusal('refusal.month_below_amount'))
}

async function findMethod(sql: Sql, customerId: string, methodId: string): Promise<SavedMethod | undefined> {
  const { rows } = await sql.query<SavedMethod>(
    `SELECT ${METHOD} WHERE customer_id = $1 AND method_id::text = lower($2) AND removed_at IS NULL`,
    [customerId, methodId],
  )
  return rows[0]
}

const METHOD = 'method_id AS "methodId", driver, brand, last4, expires, created_at AS "createdAt" FROM payment_method'

const READ = `
SELECT method_id AS "methodId", threshold_nanos AS "thresholdNanos", amount_nanos AS "amountNanos", monthly_max_nanos AS "monthlyMaxNanos",
  consented_at AS "consentedAt", paused_at AS "pausedAt", pause_reason AS "pauseReason",
  (SELECT coalesce(sum(p.amount_nanos), 0)::bigint FROM payment p
    WHERE p.customer_id = $1 AND p.purpose = 'auto_top_up' AND p.state = 'paid' AND p.created_at >= date_trunc('month', $2::timestamptz, 'UTC')) AS "chargedNanos"
FROM auto_top_up WHERE customer_id = $1`

// Cheaper than start_auto_top_up, which decides.
const DUE = `
SELECT a.customer_id AS "customerId", m.driver
FROM auto_top_up a JOIN balance b USING (customer_id) JOIN payment_method m USING (method_id)
WHERE a.paused_at IS NULL AND b.debt_nanos = 0
  AND b.posted_nanos - coalesce((SELECT sum(l.settled_nanos) FROM lease l WHERE l.customer_id = a.customer_id AND l.slots IS NOT NULL), 0) < a.threshold_nanos
  AND NOT EXISTS (SELECT FROM payment p WHERE p.customer_id = a.customer_id AND p.purpose = 'auto_top_up' AND p.state IN ('open', 'processing'))`

// Charges that failed after the node that made them had stopped, or later.
const FAILED = `
SELECT a.customer_id AS "customerId", coalesce(p.failure, 'The payment was refused.') AS failure
FROM auto_top_up a JOIN payment p USING (customer_id)
WHERE a.paused_at IS NULL AND p.purpose = 'auto_top_up' AND p.state = 'failed' AND p.created_at > a.consented_at`
