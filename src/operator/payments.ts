import { randomUUID } from 'node:crypto'
import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { ApiError } from '../base/domain/errors.ts'
import { usd } from '../base/domain/money.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { joined, type Said } from '../base/domain/said.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import type { CreditEvidence } from '../money/ledger/credit-evidence.ts'
import { type PaymentDriver, type PaymentProvider, ProviderUnavailable } from '../money/payments/payment-driver.ts'
import { type PaymentSync, payRefund } from '../money/payments/payment-sync.ts'
import { promoteAfterFirstCredit } from '../money/payments/promote.ts'
import type { Reconciliation } from '../money/payments/provider-sync.ts'
import { findPayment, listPayments, type Payment } from '../money/payments/read-payments.ts'
import { showOperatorPayment } from '../money/payments/show-payment.ts'
import { drawVoucherCode, listVouchers } from '../money/payments/vouchers.ts'
import { pageOf } from '../wire/api/cursor.ts'
import type {
  ConfirmedPayment,
  MadeVouchers,
  OperatorPayment,
  OperatorPayments,
  PaymentsQuery,
  ReversalRequest,
  VoucherList,
  VoucherOrder,
} from '../wire/api/operator/payments.ts'
import { type Actor, act } from './operator-action.ts'

/** Payments and vouchers, for operators. Every change is in the audit log. All methods reject with ApiError. */
export interface PaymentService {
  list(query: PaymentsQuery, after: string | null): Promise<OperatorPayments>
  one(paymentId: string): Promise<OperatorPayment>
  /** Books that the money of a manual payment arrived. */
  confirm(actor: Actor, paymentId: string): Promise<ConfirmedPayment>
  /** Refunds unspent credit, or books a chargeback of a manual payment. */
  reverse(actor: Actor, paymentId: string, order: ReversalRequest): Promise<OperatorPayment>
  /** Gives back what a reversal of a manual payment took. */
  returnReversal(actor: Actor, reversalId: string): Promise<void>
  /** Asks the providers for all payments that may have changed, and books the differences. */
  reconcile(actor: Actor): Promise<Reconciliation>
  makeVouchers(actor: Actor, order: VoucherOrder): Promise<MadeVouchers>
  listVouchers(limit: number, after: string | null): Promise<VoucherList>
  revokeVoucher(actor: Actor, voucherId: string): Promise<void>
}

export function createPaymentService(deps: {
  readonly pool: Pool
  /** For changes: see Database in start/compose. */
  readonly deskPool: Pool
  readonly clock: Clock
  readonly drivers: readonly PaymentDriver[]
  readonly sync: PaymentSync
  readonly evidence: CreditEvidence
}): PaymentService {
  const { pool, deskPool, clock, drivers, sync, evidence } = deps
  const find = async (sql: Sql, paymentId: string): Promise<Payment> => {
    const payment = await findPayment(sql, paymentId)
    if (payment === undefined) throw new ApiError('payment_not_found')
    return payment
  }
  return {
    async list({ customer, state, driver, review, limit }, after) {
      const filter = { customerId: customer, state, driver, needsReview: review === 'true', limit, after }
      const rows = await listPayments(pool, { ...filter, limit: limit + 1 }).catch(refuseOutage)
      const { page, next_cursor } = pageOf(rows, limit, row => row.paymentId)
      return {
        data: page.map(showOperatorPayment),
        next_cursor,
      }
    },
    one: async paymentId => showOperatorPayment(await find(pool, paymentId).catch(refuseOutage)),
    confirm: (actor, paymentId) =>
      act(deskPool, actor, async sql => {
        const { customerId } = await find(sql, paymentId)
        const verdict = await promoteAfterFirstCredit(sql, customerId, () =>
          ask<ConfirmVerdict>(sql, 'SELECT confirm_payment_by_operator($1, $2, $3) AS verdict', [
            actor.session,
            paymentId,
            actor.address,
          ]),
        )
        if (verdict === 'no_payment') throw new ApiError('payment_not_found')
        if (verdict === 'not_manual') {
          throw invalid('id', sayRefusal('refusal.payment_not_manual'))
        }
        if (verdict === 'paid') await evidence.add(sql, 'payment', paymentId, { customerId })
        return { result: verdict, payment: showOperatorPayment(await find(sql, paymentId)) }
      }),
    async reverse(actor, paymentId, { amountNanos, reason, isChargeback }) {
      const known = await find(pool, paymentId).catch(refuseOutage)
      const driver = drivers.find(({ name }) => name === known.driver)
      const provider = driver?.provider ?? null
      if (provider !== null && driver?.isLive !== known.isLive)
        throw invalid('id', sayRefusal('refusal.payment_other_mode'))
      if (known.hasProvider && provider === null) {
        throw invalid('id', sayRefusal('refusal.payment_provider_gone'))
      }
      const refunds = provider?.refunds ?? null
      if (provider !== null && refunds === null) {
        throw invalid('id', sayRefusal('refusal.refund_at_provider'))
      }
      const totalMinor = provider === null ? null : await totalOf(provider, known)
      const reversalId = randomUUID()
      let askedMinor: bigint | null = null
      await act(deskPool, actor, async sql => {
        const payment = await find(sql, paymentId)
        const reversed = payment.reversals.reduce(
          (sum, { taken, returned }) => sum + BigInt(taken) - BigInt(returned),
          0n,
        )
        const amount = amountNanos ?? payment.amountNanos - reversed
        if (amount <= 0n) throw reversalRefusals.above_payment
        // With its part of the taxes, in whole cents.
        askedMinor = totalMinor === null ? null : (totalMinor * amount) / payment.amountNanos
        if (askedMinor === 0n) throw invalid('amount_usd', sayRefusal('refusal.refund_below_cent'))
        const verdict = await ask<ReverseVerdict>(
          sql,
          'SELECT reverse_payment_by_operator($1, $2, $3, $4, $5, $6, $7, $8) AS verdict',
          [actor.session, reversalId, paymentId, amount, askedMinor, isChargeback, reason, actor.address],
        )
        if (verdict !== 'taken') throw reversalRefusals[verdict]
      })
      if (refunds !== null && askedMinor !== null) {
        const refund = { reversalId, paymentId, driver: known.driver, providerRef: known.providerRef!, askedMinor }
        // The job repeats it if the provider does not answer.
        await payRefund(deskPool, sync, refunds, refund).catch(ignoreOutage)
      }
      return showOperatorPayment(await find(pool, paymentId))
    },
    async reconcile(actor) {
      const done = await sync.reconcile({ isComplete: true })
      const { personId, keyId, address } = actor
      const entry = {
        action: 'payment.reconciled',
        personId,
        keyId,
        address,
        subject: 'all',
        detail: { ...done },
      } as const
      await act(deskPool, actor, sql => noteAction(sql, entry))
      return done
    },
    returnReversal: (actor, reversalId) =>
      act(deskPool, actor, async sql => {
        const { done } = await queryRow<{ done: boolean }>(
          sql,
          'SELECT return_reversal_by_operator($1, $2, $3) AS done',
          [actor.session, reversalId, actor.address],
        )
        if (done) return
        throw new ApiError('not_found', {
          message: sayRefusal('refusal.nothing_to_give_back'),
        })
      }),
    makeVouchers: (actor, { amountNanos, count, expiresInDays, note, isPromotion }) =>
      act(deskPool, actor, async sql => {
        const expiresAt = new Date(clock.epochMs() + expiresInDays * DAY_MS)
        const made: MadeVouchers['data'] = []
        for (let n = 0; n < count; n++) {
          const voucherId = randomUUID()
          const { code, hash, hint } = drawVoucherCode()
          const verdict = await ask<'made' | 'above_limit'>(
            sql,
            'SELECT make_voucher_by_operator($1, $2, $3, $4, $5, $6, $7, $8, $9) AS verdict',
            [actor.session, voucherId, hash, hint, amountNanos, note, isPromotion, expiresAt, actor.address],
          )
          if (verdict === 'above_limit') {
            throw invalid('amount_usd', sayRefusal('refusal.too_many_vouchers'))
          }
          await evidence.addVoucher(sql, voucherId, amountNanos)
          made.push({ id: voucherId, code, amount_usd: usd(amountNanos), expires_at: expiresAt.toISOString() })
        }
        return { data: made }
      }),
    async listVouchers(limit, after) {
      const rows = await listVouchers(pool, { limit: limit + 1, after }).catch(refuseOutage)
      const { page, next_cursor } = pageOf(rows, limit, row => row.voucherId)
      return {
        data: page.map(each => ({
          id: each.voucherId,
          hint: each.hint,
          amount_usd: usd(each.amountNanos),
          note: each.note,
          is_promotion: each.isPromotion,
          state: each.state,
          made_by: each.madeBy,
          made_at: each.madeAt.toISOString(),
          expires_at: each.expiresAt.toISOString(),
          redeemed_at: each.redeemedAt?.toISOString() ?? null,
          customer_id: each.customerId,
          email: each.email === null ? null : emailOrNull(each.email),
        })),
        next_cursor,
      }
    },
    revokeVoucher: (actor, voucherId) =>
      act(deskPool, actor, async sql => {
        const { done } = await queryRow<{ done: boolean }>(
          sql,
          'SELECT revoke_voucher_by_operator($1, $2, $3) AS done',
          [actor.session, voucherId, actor.address],
        )
        if (done) return
        throw new ApiError('not_found', { message: sayRefusal('refusal.no_voucher') })
      }),
  }
}

/** What the payer paid, with taxes. */
async function totalOf(provider: PaymentProvider, { providerRef }: Payment): Promise<bigint> {
  if (providerRef === null) throw reversalRefusals.not_paid
  const report = await provider.look(providerRef).catch((error: unknown) => {
    if (error instanceof ProviderUnavailable) throw new ApiError('payment_provider_unavailable', { internal: error })
    throw error
  })
  return BigInt(report.total_minor)
}

function ignoreOutage(error: unknown): void {
  if (!(error instanceof ProviderUnavailable)) throw error
}

type ConfirmVerdict = 'paid' | 'paid_before' | 'waiting' | 'not_manual' | 'no_payment'
type ReverseVerdict = 'taken' | 'duplicate' | 'not_paid' | 'not_manual' | 'above_payment' | 'spent' | 'no_payment'

const reversalRefusals = {
  duplicate: invalid('id', sayRefusal('refusal.reversal_repeated')),
  not_paid: invalid('id', sayRefusal('refusal.payment_not_paid')),
  not_manual: invalid('is_chargeback', sayRefusal('refusal.chargeback_by_provider')),
  above_payment: invalid('amount_usd', sayRefusal('refusal.above_payment')),
  spent: invalid('amount_usd', sayRefusal('refusal.credit_spent')),
  no_payment: new ApiError('payment_not_found'),
} as const

async function ask<T extends string>(sql: Sql, statement: string, values: unknown[]): Promise<T> {
  const { verdict } = await queryRow<{ verdict: T }>(sql, statement, values)
  return verdict
}

function invalid(param: string, message: Said): ApiError {
  return new ApiError('invalid_value', { param, message: joined(message, sayRefusal('refusal.nothing_changed')) })
}
