import { type Pool, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usd, usdText } from '../../base/domain/money.ts'
import { type PayoutDriverName, payoutLabels } from '../../base/domain/money-drivers.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { joined, type Said } from '../../base/domain/said.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { pageOf } from '../../wire/api/cursor.ts'
import type { DaySpan } from '../../wire/api/day-span.ts'
import type { Earnings } from '../../wire/api/earnings.ts'
import {
  type EnrolledAccountShown,
  type HosterPayouts,
  hiddenAccount,
  type MovedEarningsShown,
  type PayoutAccountShown,
} from '../../wire/api/payouts.ts'
import { ProviderUnavailable } from '../payments/payment-driver.ts'
import type { ChangeNotices } from './change-notices.ts'
import { moveEarnings, readEarnings, readFunds, readMovements } from './earnings.ts'
import {
  type EnrollActor,
  enrollHoster,
  listPayoutChanges,
  readPayoutAccount,
  setHosterCustomer,
  stopPayoutChanges,
} from './payout-accounts.ts'
import type { PayoutRules } from './payout-batches.ts'
import type { BankDetails, PayoutDriver } from './payout-driver.ts'
import { readPromotionDays } from './promotions.ts'
import { payoutsOfHoster } from './read-payouts.ts'
import { showFunds, showPayout, showPayoutChange } from './show-payout.ts'
import { statementCsv } from './statement-csv.ts'

/**
 * What the programs and people of a hoster read of its earnings, and where they are paid. All methods reject with
 * ApiError.
 */
export interface EarningsService {
  readonly clock: Clock
  earnings(hosterId: string, span: DaySpan): Promise<Earnings>
  csv(hosterId: string, span: DaySpan): Promise<string>
  payouts(hosterId: string, page: { limit: number; after: string | null }): Promise<HosterPayouts>
  account(hosterId: string): Promise<PayoutAccountShown>
  enroll(hosterId: string, order: Enrollment, actor: EnrollActor): Promise<EnrolledAccountShown>
  setCustomer(hosterId: string, customerId: string, actor: EnrollActor): Promise<PayoutAccountShown>
  stopChange(hosterId: string, changeId: string, actor: EnrollActor): Promise<PayoutAccountShown>
  move(hosterId: string, order: MoveOrder, by: Acting): Promise<MovedEarningsShown>
}

export interface Enrollment {
  readonly driver: PayoutDriverName
  readonly details: BankDetails | null
}

export interface MoveOrder {
  readonly moveId: string
  /** Null: all. */
  readonly amountNanos: Nanos | null
}

export function createEarningsService(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly drivers: readonly PayoutDriver[]
  readonly rules: PayoutRules
  readonly notices: ChangeNotices
}): EarningsService {
  const { pool, clock, drivers, rules, notices } = deps

  const wait = () => ({ nowMs: clock.epochMs(), accountWaitHours: rules.accountWaitHours })

  async function account(hosterId: string): Promise<PayoutAccountShown> {
    const [found, changes] = await Promise.all([
      readPayoutAccount(pool, hosterId),
      listPayoutChanges(pool, hosterId),
    ]).catch(refuseOutage)
    return {
      object: 'payout_account',
      driver: found.driver,
      state: found.state,
      account: found.destination === null ? null : hiddenAccount(found.destination),
      holder: found.holder,
      note: found.note,
      customer_id: found.customerId,
      changes: changes.map(showPayoutChange),
      drivers: drivers.map(({ name }) => name),
    }
  }

  return {
    clock,
    account,
    async earnings(hosterId, span) {
      const days = { from: span.from, to: dayAfter(span.until) }
      const [funds, lines, promotionDays, movements] = await Promise.all([
        readFunds(pool, hosterId, rules.holdDays, clock.epochMs()),
        readEarnings(pool, hosterId, days),
        readPromotionDays(pool, hosterId, days),
        readMovements(pool, hosterId, days),
      ]).catch(refuseOutage)
      if (funds === undefined) throw new ApiError('hoster_not_found')
      return {
        object: 'earnings',
        ...showFunds(funds, rules),
        ...span,
        lines: lines.map(line => ({
          day: line.day,
          model: line.modelId,
          requests: Number(line.requests),
          input_tokens: Number(line.inputTokens),
          output_tokens: Number(line.outputTokens),
          gross_usd: usd(line.grossNanos),
          share_usd: usd(line.shareNanos),
          fee_usd: usd(line.feeNanos),
          refunded_usd: usd(line.refundedNanos),
          refunded_share_usd: usd(line.refundedShareNanos),
        })),
        promotion_days: promotionDays.map(({ day, shareNanos, paidNanos }) => ({
          day,
          share_usd: usd(shareNanos),
          paid_usd: paidNanos === null ? null : usd(paidNanos),
        })),
        movements: movements.map(({ kind, amountNanos, at, reason }) => ({
          kind,
          amount_usd: usd(amountNanos),
          at: at.toISOString(),
          reason,
        })),
      }
    },
    async csv(hosterId, { from, until }) {
      const lines = await readEarnings(pool, hosterId, { from, to: dayAfter(until) }).catch(refuseOutage)
      return statementCsv(lines)
    },
    async payouts(hosterId, { limit, after }) {
      const rows = await payoutsOfHoster(pool, hosterId, { limit: limit + 1, after }).catch(refuseOutage)
      const { page, next_cursor } = pageOf(rows, limit, row => row.payoutId)
      return {
        object: 'list',
        data: page.map(showPayout),
        next_cursor,
      }
    },
    async enroll(hosterId, { driver: name, details }, actor) {
      const driver = drivers.find(each => each.name === name)
      if (driver === undefined)
        throw invalid('driver', sayRefusal('refusal.no_payout_driver', { driver: payoutLabels[name] }))
      const { url } = await enrollHoster(pool, driver, { hosterId, details }, actor, wait()).catch(refuse)
      notices.sendSoon()
      return { ...(await account(hosterId)), url }
    },
    async setCustomer(hosterId, customerId, actor) {
      const done = await transaction(pool, async sql => {
        // The person spends for this customer: see docs/accounts.md.
        const { rows } = await sql.query(
          "SELECT FROM membership WHERE customer_id = $1 AND person_id = $2 AND role IN ('owner', 'billing')",
          [customerId, actor.personId],
        )
        return rows.length > 0 && (await setHosterCustomer(sql, hosterId, customerId, actor, wait()))
      }).catch(refuseOutage)
      if (!done) {
        throw invalid('customer_id', sayRefusal('refusal.not_your_customer'))
      }
      notices.sendSoon()
      return account(hosterId)
    },
    async stopChange(hosterId, changeId, actor) {
      const stopped = await stopPayoutChanges(pool, { hosterId, changeId }, actor, clock.epochMs()).catch(refuseOutage)
      if (stopped === 0) throw new ApiError('not_found', { message: sayRefusal('refusal.no_change_waits') })
      return account(hosterId)
    },
    async move(hosterId, order, by) {
      const { verdict, amount, customer } = await moveEarnings(pool, { ...order, hosterId }, by, clock.epochMs()).catch(
        refuseOutage,
      )
      switch (verdict) {
        case 'moved':
        case 'duplicate':
          return { moved_usd: usd(amount), customer_id: customer!, is_repeat: verdict === 'duplicate' }
        case 'move_reused':
          throw new ApiError('idempotency_key_reused', { param: 'id' })
        case 'no_hoster':
          throw new ApiError('hoster_not_found')
        case 'no_customer':
          throw invalid('id', sayRefusal('refusal.no_customer_of_hoster'))
        case 'frozen':
          throw new ApiError('earnings_frozen')
        case 'not_enough':
          throw invalid('amount_usd', sayRefusal('refusal.earnings_to_move', { amount: usdText(amount) }))
      }
    },
  }
}

function dayAfter(day: string): string {
  return new Date(Date.parse(day) + DAY_MS).toISOString().slice(0, 10)
}

function refuse(error: unknown): never {
  if (error instanceof ProviderUnavailable) throw new ApiError('payment_provider_unavailable', { internal: error })
  if (error instanceof ApiError) throw error
  return refuseOutage(error)
}

function invalid(param: string, message: Said): ApiError {
  return new ApiError('invalid_value', { param, message: joined(message, sayRefusal('refusal.nothing_changed')) })
}
