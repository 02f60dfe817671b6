import type { Stripe } from 'stripe'
import {
  ChargeRefused,
  PaymentMissing,
  type PaymentOrder,
  type PaymentProvider,
  type PaymentReport,
  RefundRefused,
  type ReportedMethod,
  type ReportedReversal,
} from '../payment-driver.ts'
import { findAttempt } from './find-attempt.ts'
import { readStripeEvent } from './read-event.ts'
import { listAll, orNull, type StripeClient } from './stripe-client.ts'
import { hasWithdrawn, idOf, isFailedRefund, stripeMoves } from './stripe-moves.ts'

/** Reads facts of Stripe: checkout sessions (`cs_`), and the payment intents, refunds and disputes behind them. */
export function createStripeProvider(client: StripeClient, webhookSecret: string | null): PaymentProvider {
  return {
    webhook:
      webhookSecret === null
        ? null
        : {
            signatureHeader: 'Stripe-Signature',
            readEvent: (rawBody, signature) => readStripeEvent(client, webhookSecret, rawBody, signature),
          },
    savedMethods: { charge: (order, methodRef) => chargeMethod(client, order, methodRef) },
    refunds: { refund: (providerRef, amountMinor, reversalId) => refund(client, providerRef, amountMinor, reversalId) },
    moves: stripeMoves(client),
    async paymentIdOf(ref) {
      const found = await client<{ metadata: Stripe.Metadata | null } | null>(stripe =>
        orNull<{ metadata: Stripe.Metadata | null }>(
          ref.startsWith('cs_') ? stripe.checkout.sessions.retrieve(ref) : stripe.paymentIntents.retrieve(ref),
        ),
      )
      return found?.metadata?.payment_id ?? null
    },
    async look(providerRef) {
      if (providerRef.startsWith('pi_')) return lookAtCharge(client, providerRef)
      const session = await client(stripe =>
        orNull(
          stripe.checkout.sessions.retrieve(providerRef, {
            expand: ['invoice', 'payment_intent.latest_charge.balance_transaction', 'payment_intent.payment_method'],
          }),
        ),
      )
      if (session === null) throw new PaymentMissing(providerRef)
      const intent = session.payment_intent as Stripe.PaymentIntent | null
      return reportOf(session, intent, intent === null ? [] : await reversalsOf(client, intent.id))
    },
    find: attempt => findAttempt(client, attempt),
  }
}

async function chargeMethod(
  client: StripeClient,
  { paymentId, amountMinor, currency, accountRef }: PaymentOrder,
  methodRef: string,
): Promise<string> {
  return client(async stripe => {
    try {
      const intent = await stripe.paymentIntents.create(
        {
          amount: Number(amountMinor),
          currency,
          customer: accountRef!,
          payment_method: methodRef,
          off_session: true,
          confirm: true,
          metadata: { payment_id: paymentId },
        },
        { idempotencyKey: paymentId },
      )
      return intent.id
    } catch (error) {
      const {
        type,
        message,
        payment_intent: intent,
      } = error as {
        type?: string
        message: string
        payment_intent?: { id: string }
      }
      if (intent !== undefined) return intent.id
      if (type === 'StripeCardError' || type === 'StripeInvalidRequestError') throw new ChargeRefused(message)
      throw error
    }
  })
}

async function refund(
  client: StripeClient,
  providerRef: string,
  amountMinor: bigint,
  reversalId: string,
): Promise<void> {
  const intentId = providerRef.startsWith('pi_')
    ? providerRef
    : ((await client(stripe => stripe.checkout.sessions.retrieve(providerRef))).payment_intent as string)
  const isMade = async () => {
    const refunds = await client(stripe => listAll(stripe.refunds.list({ payment_intent: intentId, limit: 100 })))
    return refunds.some(({ metadata }) => metadata?.reversal_id === reversalId)
  }
  // Stripe forgets idempotency keys after a day, so a refund is looked for before it is made.
  if (await isMade()) return
  await client(async stripe => {
    try {
      await stripe.refunds.create(
        {
          payment_intent: intentId,
          amount: Number(amountMinor),
          metadata: { reversal_id: reversalId },
        },
        { idempotencyKey: reversalId },
      )
    } catch (error) {
      const { type, message } = error as { type?: string; message: string }
      if (type !== 'StripeInvalidRequestError' && type !== 'StripeCardError') throw error
      // Another node may have made it in the meantime, and then nothing was left for this try.
      if (!(await isMade())) throw new RefundRefused(message)
    }
  })
}

interface Taken extends ReportedReversal {
  /** In the smallest unit of USD; 0 for refunds. Null: Stripe took it from a balance in another currency. */
  readonly feeMinor: number | null
}

async function reversalsOf(client: StripeClient, intentId: string): Promise<Taken[]> {
  const filter = { payment_intent: intentId, limit: 100 }
  const [refunds, disputes] = await Promise.all([
    client(stripe => listAll(stripe.refunds.list(filter))),
    client(stripe => listAll(stripe.disputes.list(filter))),
  ])
  return [
    ...refunds.map(({ id, amount, status, metadata }) => ({
      ref: id,
      kind: 'refund' as const,
      minor: isFailedRefund(status) ? 0 : amount,
      reversal_id: metadata?.reversal_id ?? null,
      reason: 'refund',
      feeMinor: 0,
    })),
    ...disputes.map(({ id, amount, balance_transactions: moves }) => ({
      ref: id,
      kind: 'dispute' as const,
      minor: hasWithdrawn(moves) ? amount : 0,
      reversal_id: null,
      reason: 'chargeback',
      feeMinor: sumOfFees(moves),
    })),
  ]
}

function reportOf(
  session: Stripe.Checkout.Session,
  intent: Stripe.PaymentIntent | null,
  reversals: readonly Taken[],
): PaymentReport {
  const invoice = session.invoice as Stripe.Invoice | null
  return {
    state: stateOf(session, intent),
    payment_id: session.metadata?.payment_id ?? null,
    amount_minor: session.amount_subtotal,
    total_minor: session.amount_total ?? 0,
    currency: session.currency,
    is_live: session.livemode,
    charge_ref: session.payment_status === 'paid' ? (intent?.id ?? null) : null,
    invoice_url: invoice?.hosted_invoice_url ?? null,
    ...factsOf(intent, reversals),
  }
}

/** A charge of a saved method has no session. */
async function lookAtCharge(client: StripeClient, intentId: string): Promise<PaymentReport> {
  const intent = await client(stripe =>
    orNull(stripe.paymentIntents.retrieve(intentId, { expand: ['latest_charge.balance_transaction'] })),
  )
  if (intent === null) throw new PaymentMissing(intentId)
  const { status } = intent
  return {
    state:
      status === 'succeeded'
        ? 'paid'
        : status === 'canceled'
          ? 'cancelled'
          : status === 'processing'
            ? 'processing'
            : 'failed',
    payment_id: intent.metadata?.payment_id ?? null,
    amount_minor: intent.amount,
    total_minor: intent.amount,
    currency: intent.currency,
    is_live: intent.livemode,
    charge_ref: status === 'succeeded' ? intent.id : null,
    invoice_url: null,
    ...factsOf(intent, await reversalsOf(client, intentId)),
    method: null,
  }
}

type Facts = Pick<PaymentReport, 'failure' | 'receipt_url' | 'fee_nanos' | 'reversals' | 'method'>

function factsOf(intent: Stripe.PaymentIntent | null, reversals: readonly Taken[]): Facts {
  const charge = intent?.latest_charge as Stripe.Charge | null | undefined
  const fees = charge?.balance_transaction as Stripe.BalanceTransaction | null | undefined
  const feesMinor = [fees == null ? null : sumOfFees([fees]), ...reversals.map(each => each.feeMinor)]
  return {
    failure: intent?.last_payment_error?.message ?? null,
    receipt_url: charge?.receipt_url ?? null,
    fee_nanos: feesMinor.includes(null)
      ? null
      : String(feesMinor.reduce((sum, fee) => sum + BigInt(fee!), 0n) * 10_000_000n),
    reversals: reversals.map(({ feeMinor: _, ...each }) => each),
    method: intent === null ? null : methodOf(intent),
  }
}

/** In the smallest unit of USD. Null when one of them is in another currency: the books are in USD. */
function sumOfFees(moves: readonly Stripe.BalanceTransaction[]): number | null {
  return moves.every(({ currency }) => currency === 'usd') ? moves.reduce((sum, { fee }) => sum + fee, 0) : null
}

/** The payment method, if the payer let Stripe keep it for later charges. */
function methodOf({
  status,
  setup_future_usage,
  customer,
  payment_method,
}: Stripe.PaymentIntent): ReportedMethod | null {
  const method = payment_method as Stripe.PaymentMethod | null
  const accountRef = idOf(customer)
  if (status !== 'succeeded' || setup_future_usage !== 'off_session' || method === null || accountRef === undefined)
    return null
  const { id: ref, type, card } = method
  const fingerprint = (card ?? method.us_bank_account ?? method.sepa_debit)?.fingerprint ?? null
  return {
    accountRef,
    ref,
    brand: card?.brand ?? type,
    last4: card?.last4 ?? '',
    identity: fingerprint === null ? null : `stripe:${fingerprint}`,
    expires: card == null ? '' : `${String(card.exp_month).padStart(2, '0')}/${card.exp_year}`,
  }
}

function stateOf(session: Stripe.Checkout.Session, intent: Stripe.PaymentIntent | null): PaymentReport['state'] {
  if (session.payment_status === 'paid') return 'paid'
  if (session.status === 'expired') return 'expired'
  if (session.status === 'open') return 'open'
  if (intent?.status === 'canceled') return 'cancelled'
  return intent?.status === 'requires_payment_method' ? 'failed' : 'processing'
}
