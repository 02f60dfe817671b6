import { DAY_MS, HOUR_MS } from '../../../base/domain/durations.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import {
  type EarlierAttempt,
  type PaymentDriver,
  PaymentMissing,
  type PaymentOrder,
  type PaymentProvider,
  type PaymentReport,
  type StartedPayment,
} from '../payment-driver.ts'
import {
  createPaddleClient,
  type PaddleAdjustment,
  type PaddleClient,
  type PaddleTransaction,
} from './paddle-client.ts'
import { isDispute, minorOf, paddleMoves } from './paddle-moves.ts'
import type { PaddleSettings } from './paddle-settings.ts'
import { readPaddleEvent } from './read-event.ts'

/** A transaction of Paddle never ends by itself. */
const OPEN_MS = DAY_MS
/** How much the clocks of gateways and Paddle may differ. */
const SKEW_MS = HOUR_MS

/**
 * The payer pays on the page of the operator's default payment link, which runs Paddle's checkout. Paddle sells to the
 * payer, so it adds taxes. It has no idempotency keys: what creates something a second time would charge or refund
 * twice, so this driver creates checkouts only, and a second one is harmless. Refunds are made on Paddle's pages, where
 * Paddle approves them, and are booked when it reports them.
 */
export function createPaddleDriver(settings: PaddleSettings): PaymentDriver {
  const client = createPaddleClient(settings)
  return {
    name: 'paddle',
    isLive: settings.isLive,
    openMs: OPEN_MS,
    start: order => createCheckout(client, order),
    instructionsFor: () => null,
    provider: createProvider(client, settings),
  }
}

function createProvider(client: PaddleClient, { webhookSecret, isLive }: PaddleSettings): PaymentProvider {
  return {
    webhook:
      webhookSecret === null
        ? null
        : {
            signatureHeader: 'Paddle-Signature',
            readEvent: async (rawBody, signature) => readPaddleEvent(webhookSecret, rawBody, signature),
          },
    savedMethods: null,
    refunds: null,
    moves: paddleMoves(client),
    paymentIdOf: async ref => ourIdOf(await client.get<PaddleTransaction>(pathOf(ref))),
    async look(providerRef) {
      const found = await client.get<PaddleTransaction>(`${pathOf(providerRef)}?include=adjustments`)
      if (found === null) throw new PaymentMissing(providerRef)
      return reportOf(found, isLive)
    },
    find: attempt => findAttempt(client, attempt),
  }
}

async function createCheckout(
  client: PaddleClient,
  { paymentId, amountMinor, currency, reference }: PaymentOrder,
): Promise<StartedPayment> {
  const currency_code = currency.toUpperCase()
  const { id, checkout } = await client.post<PaddleTransaction>('/transactions', {
    currency_code,
    collection_mode: 'automatic',
    custom_data: { payment_id: paymentId },
    items: [
      {
        quantity: 1,
        price: {
          name: `Credit ${reference}`,
          description: `Credit ${reference}`,
          unit_price: { amount: String(amountMinor), currency_code },
          // Taxes come on top.
          tax_mode: 'external',
          // Otherwise the payer may change it.
          quantity: { minimum: 1, maximum: 1 },
          product: { name: 'Credit', tax_category: 'standard' },
        },
      },
    ],
  })
  return { providerRef: id, redirectUrl: checkout?.url ?? null }
}

/** Lists what was made since the first attempt. Of several, it prefers one that was paid, then the oldest. */
async function findAttempt(
  client: PaddleClient,
  { paymentId, startedAt, endedAt }: EarlierAttempt,
): Promise<StartedPayment | null> {
  const query = new URLSearchParams({
    'created_at[GTE]': new Date(startedAt.getTime() - SKEW_MS).toISOString(),
    per_page: '30',
  })
  if (endedAt !== null) query.set('created_at[LTE]', new Date(endedAt.getTime() + SKEW_MS).toISOString())
  const made = (await client.list<PaddleTransaction>(`/transactions?${query}`)).filter(
    each => ourIdOf(each) === paymentId,
  )
  const rank = ({ status }: PaddleTransaction) => (status === 'completed' ? 0 : status === 'canceled' ? 2 : 1)
  const [found] = made.toSorted((a, b) => rank(a) - rank(b) || a.created_at.localeCompare(b.created_at))
  return found === undefined ? null : { providerRef: found.id, redirectUrl: found.checkout?.url ?? null }
}

function reportOf(transaction: PaddleTransaction, isLive: boolean): PaymentReport {
  const { id, currency_code, details, adjustments = [] } = transaction
  const { subtotal, discount, total, fee } = details.totals
  const state = stateOf(transaction)
  return {
    state,
    payment_id: ourIdOf(transaction),
    // A payer with a code of a discount pays less, and the subtotal does not show it.
    amount_minor: minorOf(subtotal) - minorOf(discount),
    total_minor: minorOf(total),
    currency: currency_code.toLowerCase(),
    is_live: isLive,
    charge_ref: state === 'paid' ? id : null,
    failure: state === 'failed' ? 'The payment was refused.' : null,
    receipt_url: null,
    invoice_url: null,
    fee_nanos: fee === null || currency_code !== 'USD' ? null : String(BigInt(fee) * 10_000_000n),
    reversals: adjustments.filter(isReported).map(adjustment => ({
      ref: adjustment.id,
      kind: isDispute(adjustment) ? ('dispute' as const) : ('refund' as const),
      minor: adjustment.status === 'approved' ? minorOf(adjustment.totals.total) : 0,
      reversal_id: null,
      reason: isDispute(adjustment) ? 'chargeback' : 'refund',
    })),
    method: null,
  }
}

/** Refunds that Paddle has not approved have moved no money. Reversals of disputes change the dispute itself. */
function isReported(adjustment: PaddleAdjustment): boolean {
  return (adjustment.action === 'refund' || isDispute(adjustment)) && adjustment.status !== 'pending_approval'
}

function stateOf({ status, created_at }: PaddleTransaction): PaymentReport['state'] {
  switch (status) {
    case 'completed':
      return 'paid'
    // Paddle has the money and still works on it.
    case 'paid':
    case 'billed':
      return 'processing'
    case 'canceled':
      return 'cancelled'
    case 'past_due':
      return 'failed'
    default:
      // Money that arrives later is still booked.
      return Date.now() - Date.parse(created_at) > OPEN_MS ? 'expired' : 'open'
  }
}

function ourIdOf(transaction: PaddleTransaction | null): string | null {
  const data = transaction?.custom_data
  return isJsonObject(data) && typeof data.payment_id === 'string' ? data.payment_id : null
}

const pathOf = (ref: string) => `/transactions/${encodeURIComponent(ref)}`
