import type { Stripe } from 'stripe'
import type { ProviderMove, ProviderMoves } from '../payment-driver.ts'
import { listAll, orNull, type StripeClient } from './stripe-client.ts'

/** Lists charges, refunds and disputes, of this gateway and of other programs with the same account. */
export function stripeMoves(client: StripeClient): ProviderMoves {
  return {
    async between(fromMs, untilMs) {
      const created = { gte: Math.floor(fromMs / 1_000), lt: Math.ceil(untilMs / 1_000) }
      const filter = { created, limit: 100 }
      const charges = await client(stripe => listAll(stripe.charges.list(filter)))
      const refunds = await client(stripe => listAll(stripe.refunds.list(filter)))
      const disputes = await client(stripe => listAll(stripe.disputes.list(filter)))
      return [...charges.map(chargeOf), ...refunds.map(refundOf), ...disputes.map(disputeOf)]
    },
    async one(kind, ref) {
      if (kind === 'charge') {
        const charge = await client(stripe => orNull(stripe.charges.retrieve(ref)))
        return charge && chargeOf(charge)
      }
      if (kind === 'refund') {
        const refund = await client(stripe => orNull(stripe.refunds.retrieve(ref)))
        return refund && refundOf(refund)
      }
      const dispute = await client(stripe => orNull(stripe.disputes.retrieve(ref)))
      return dispute && disputeOf(dispute)
    },
    async paymentOf(chargeRef) {
      const { data } = await client(stripe => stripe.checkout.sessions.list({ payment_intent: chargeRef, limit: 1 }))
      return data[0]?.id ?? chargeRef
    },
  }
}

function chargeOf(charge: Stripe.Charge): ProviderMove {
  const { id, status, amount, amount_refunded, currency, created, metadata, customer } = charge
  return {
    kind: 'charge',
    ref: id,
    chargeRef: idOf(charge.payment_intent) ?? id,
    paymentId: metadata.payment_id ?? null,
    accountRef: idOf(customer) ?? null,
    state:
      status === 'failed'
        ? 'failed'
        : status === 'pending'
          ? 'pending'
          : amount_refunded >= amount
            ? 'returned'
            : 'done',
    amountMinor: amount,
    currency,
    atMs: created * 1_000,
  }
}

function refundOf({ id, status, amount, currency, created, payment_intent, charge }: Stripe.Refund): ProviderMove {
  return {
    kind: 'refund',
    ref: id,
    chargeRef: idOf(payment_intent) ?? idOf(charge) ?? id,
    paymentId: null,
    accountRef: null,
    state: isFailedRefund(status) ? 'failed' : 'done',
    amountMinor: amount,
    currency,
    atMs: created * 1_000,
  }
}

function disputeOf(dispute: Stripe.Dispute): ProviderMove {
  const { id, amount, currency, created, payment_intent, charge, balance_transactions: moves } = dispute
  return {
    kind: 'dispute',
    ref: id,
    chargeRef: idOf(payment_intent) ?? idOf(charge) ?? id,
    paymentId: null,
    accountRef: null,
    state: hasWithdrawn(moves) ? 'done' : 'failed',
    amountMinor: amount,
    currency,
    atMs: created * 1_000,
  }
}

export function isFailedRefund(status: string | null): boolean {
  return status === 'failed' || status === 'canceled'
}

/** Funds are withdrawn by a negative amount and reinstated by a positive one. An inquiry has moved none. */
export function hasWithdrawn(moves: readonly Stripe.BalanceTransaction[]): boolean {
  return moves.reduce((sum, move) => sum + move.amount, 0) < 0
}

export function idOf(found: unknown): string | undefined {
  if (typeof found === 'string') return found
  return (found as { id?: string } | null | undefined)?.id
}
