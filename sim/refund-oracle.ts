import type { Nanos } from '../src/base/domain/money.ts'
import type { RefundOrder } from '../src/money/ledger/accounts/refund-request.ts'
import type { DatabaseServer } from './database-server.ts'
import type { RefundVerdict } from './model-database.ts'
import type { World } from './world.ts'

/** Tracks all refunds and checks them. */
export interface RefundOracle {
  /** Checks an order when the database executes it. */
  executed(order: RefundOrder, verdict: RefundVerdict): void
  /** Checks the answer that the operator received. */
  answered(order: RefundOrder, verdict: RefundVerdict): void
  /** Forgets refunds that the database has lost. */
  forgetLost(): void
  sums(): ReadonlyMap<string, Nanos>
  readonly count: number
}

export function createRefundOracle(world: World, serverOf: () => DatabaseServer): RefundOracle {
  const refunds = new Map<string, { readonly customerId: string; readonly amount: Nanos }>()
  const lost = new Set<string>()
  return {
    executed,
    answered,
    forgetLost() {
      for (const [requestId, { customerId }] of refunds) {
        if (serverOf().model.tables.refunds.has(`${customerId} ${requestId}`)) continue
        refunds.delete(requestId)
        lost.add(requestId)
      }
    },
    sums() {
      const sums = new Map<string, Nanos>()
      for (const { customerId, amount } of refunds.values()) sums.set(customerId, (sums.get(customerId) ?? 0n) + amount)
      return sums
    },
    get count() {
      return refunds.size
    },
  }

  /** A request is refunded once, by at most its charge, taken from hoster and platform in proportion to what each earned. */
  function executed({ customerId, requestId, amountNanos }: RefundOrder, verdict: RefundVerdict): void {
    const { usage, entries, refunds: rows } = serverOf().model.tables
    const charge = usage.get(customerId)?.get(requestId)
    const name = `request ${requestId}: ${verdict.kind}`
    if (verdict.kind !== 'refunded') {
      const isPayable = charge !== undefined && charge.cost > 0n && !refunds.has(requestId)
      if (isPayable && (amountNanos ?? charge.cost) <= charge.cost) world.fail('refunds_are_given', name)
      return
    }
    const amount = verdict.amountNanos!
    if (refunds.has(requestId)) world.fail('refunds_happen_once', name)
    refunds.set(requestId, { customerId, amount })
    if (charge === undefined || amount > charge.cost || amount !== (amountNanos ?? charge.cost)) {
      world.fail('refunds_within_charges', `${name}: ${amount} of ${charge?.cost}`)
      return
    }
    const share = verdict.hosterShareNanos!
    if (share * charge.cost > charge.hosterShare * amount || (share + 1n) * charge.cost <= charge.hosterShare * amount)
      world.fail('refunds_reverse_shares', `${name}: ${share} of ${charge.hosterShare} for ${amount} of ${charge.cost}`)
    const row = rows.get(`${customerId} ${requestId}`)
    const sums = {
      customer: 0n,
      hoster_payable: 0n,
      platform_revenue: 0n,
      platform_promo: 0n,
      cash: 0n,
      customer_debt: 0n,
    }
    for (let at = entries.length - 1; at >= 0 && entries[at]!.txId === row?.txId; at--)
      sums[entries[at]!.kind] += entries[at]!.amount
    if (sums.customer !== amount || sums.hoster_payable !== -share || sums.platform_revenue !== share - amount)
      world.fail('refunds_equal_entries', `${name}: ${sums.customer}, ${sums.hoster_payable}, ${sums.platform_revenue}`)
  }

  function answered({ requestId, amountNanos }: RefundOrder, verdict: RefundVerdict): void {
    if (lost.has(requestId)) return
    const refund = refunds.get(requestId)
    const isGiven = verdict.kind === 'refunded' || verdict.kind === 'duplicate'
    if (isGiven && (refund === undefined || refund.amount !== verdict.amountNanos))
      world.fail('refunds_are_given', `request ${requestId}: ${verdict.amountNanos}, not ${refund?.amount}`)
    if (verdict.kind === 'refunded_before' && (refund === undefined || refund.amount === amountNanos))
      world.fail('refunds_are_given', `request ${requestId}: ${verdict.kind}`)
  }
}
