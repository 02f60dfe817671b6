import type { Stripe } from 'stripe'
import type { EarlierAttempt, StartedPayment } from '../payment-driver.ts'
import { listAll, type StripeClient } from './stripe-client.ts'

/** How much the clocks of gateways and Stripe may differ. */
const SKEW_S = 3_600

/**
 * Looks for what an earlier attempt made. Stripe forgets idempotency keys after a day. Its search by metadata may lag
 * behind, so this lists what was made since the first attempt. Of several, it prefers one that was paid.
 */
export async function findAttempt(client: StripeClient, attempt: EarlierAttempt): Promise<StartedPayment | null> {
  const created = {
    gte: Math.floor(attempt.startedAt.getTime() / 1_000) - SKEW_S,
    ...(attempt.endedAt !== null && { lte: Math.ceil(attempt.endedAt.getTime() / 1_000) + SKEW_S }),
  }
  const isItsOwn = ({ metadata }: { metadata: Stripe.Metadata | null }) => metadata?.payment_id === attempt.paymentId
  if (attempt.isCharge) {
    // The list of one customer is short.
    const filter = { ...(attempt.accountRef !== null && { customer: attempt.accountRef }), created, limit: 100 }
    const intents = (await client(stripe => listAll(stripe.paymentIntents.list(filter)))).filter(isItsOwn)
    const found = preferred(intents, ({ status }) => ['succeeded', 'processing'].indexOf(status))
    return found === undefined ? null : { providerRef: found.id, redirectUrl: null }
  }
  const sessions = (await client(stripe => listAll(stripe.checkout.sessions.list({ created, limit: 100 })))).filter(
    isItsOwn,
  )
  const found = preferred(sessions, ({ status }) => ['complete', 'open'].indexOf(status ?? ''))
  return found === undefined ? null : { providerRef: found.id, redirectUrl: found.url }
}

/** @param rankOf the lowest is preferred; -1 stands for the last */
function preferred<T extends { created: number }>(all: readonly T[], rankOf: (each: T) => number): T | undefined {
  const rank = (each: T) => (rankOf(each) === -1 ? Number.POSITIVE_INFINITY : rankOf(each))
  return all.toSorted((a, b) => (rank(a) === rank(b) ? a.created - b.created : rank(a) - rank(b)))[0]
}
