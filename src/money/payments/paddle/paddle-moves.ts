import { isJsonObject } from '../../../base/runtime/json-object.ts'
import type { ProviderMove, ProviderMoves } from '../payment-driver.ts'
import type { PaddleAdjustment, PaddleClient, PaddleTransaction } from './paddle-client.ts'

/** Lists paid transactions, refunds and disputes, of this gateway and of other programs with the same account. */
export function paddleMoves(client: PaddleClient): ProviderMoves {
  return {
    async between(fromMs, untilMs) {
      const query = new URLSearchParams({
        status: 'paid,completed',
        // When it was paid: a checkout may have been opened long before.
        'billed_at[GTE]': new Date(fromMs).toISOString(),
        'billed_at[LT]': new Date(untilMs).toISOString(),
        per_page: '30',
      })
      const charges = await client.list<PaddleTransaction>(`/transactions?${query}`)
      // This list has no filter by time. Ids grow with it.
      const adjustments = await client.list<PaddleAdjustment>('/adjustments?order_by=id[DESC]&per_page=50', page =>
        page.some(({ created_at }) => Date.parse(created_at) < fromMs),
      )
      const isInSpan = ({ created_at: at }: PaddleAdjustment) => Date.parse(at) >= fromMs && Date.parse(at) < untilMs
      return [...charges.map(chargeOf), ...adjustments.filter(isInSpan).flatMap(each => reversalOf(each) ?? [])]
    },
    async one(kind, ref) {
      if (kind === 'charge') {
        const found = await client.get<PaddleTransaction>(
          `/transactions/${encodeURIComponent(ref)}?include=adjustments`,
        )
        return found && chargeOf(found)
      }
      const [found] = await client.list<PaddleAdjustment>(`/adjustments?id=${encodeURIComponent(ref)}`)
      return found === undefined ? null : reversalOf(found)
    },
    paymentOf: async chargeRef => chargeRef,
  }
}

function chargeOf({
  id,
  status,
  custom_data,
  customer_id,
  currency_code,
  created_at,
  billed_at,
  details,
  adjustments = [],
}: PaddleTransaction): ProviderMove {
  const total = minorOf(details.totals.total)
  const returned = adjustments
    .filter(each => each.status === 'approved' && (each.action === 'refund' || isDispute(each)))
    .reduce((sum, { totals }) => sum + minorOf(totals.total), 0)
  return {
    kind: 'charge',
    ref: id,
    chargeRef: id,
    paymentId: isJsonObject(custom_data) && typeof custom_data.payment_id === 'string' ? custom_data.payment_id : null,
    accountRef: customer_id,
    state: status === 'paid' ? 'pending' : status !== 'completed' ? 'failed' : returned >= total ? 'returned' : 'done',
    amountMinor: total,
    currency: currency_code.toLowerCase(),
    atMs: Date.parse(billed_at ?? created_at),
  }
}

function reversalOf(adjustment: PaddleAdjustment): ProviderMove | null {
  const { id, action, status, transaction_id, currency_code, created_at, totals } = adjustment
  if (action !== 'refund' && !isDispute(adjustment)) return null
  return {
    kind: isDispute(adjustment) ? 'dispute' : 'refund',
    ref: id,
    chargeRef: transaction_id,
    paymentId: null,
    accountRef: null,
    state: status === 'approved' ? 'done' : 'failed',
    amountMinor: minorOf(totals.total),
    currency: currency_code.toLowerCase(),
    atMs: Date.parse(created_at),
  }
}

/** A warning takes the money too, and is reversed when the chargeback does not come. */
export function isDispute({ action }: PaddleAdjustment): boolean {
  return action === 'chargeback' || action === 'chargeback_warning'
}

/** Amounts are whole numbers as text. */
export function minorOf(amount: string): number {
  if (!/^\d{1,15}$/.test(amount)) throw new Error(`not an amount of Paddle: ${amount}`)
  return Number(amount)
}
