import type { PaymentOrder, StartedPayment } from '../payment-driver.ts'
import type { StripeClient } from './stripe-client.ts'

/** Opens a page of Stripe where the payer pays. The payment's id is the idempotency key. */
export async function createCheckout(
  client: StripeClient,
  { paymentId, customerId, amountMinor, currency, reference, savesMethod, accountRef }: PaymentOrder,
  { baseUrl, hasTax }: { readonly baseUrl: string; readonly hasTax: boolean },
): Promise<StartedPayment> {
  // The return to this page grants nothing: the page asks for the state of the payment.
  const returnUrl = `${baseUrl}/c/${customerId}/credits?payment=${paymentId}`
  const metadata = { payment_id: paymentId }
  const session = await client(stripe =>
    stripe.checkout.sessions.create(
      {
        mode: 'payment',
        client_reference_id: paymentId,
        metadata,
        payment_intent_data: { metadata, ...(savesMethod && { setup_future_usage: 'off_session' }) },
        ...(accountRef !== null ? { customer: accountRef } : savesMethod && { customer_creation: 'always' }),
        line_items: [
          {
            quantity: 1,
            price_data: {
              currency,
              unit_amount: Number(amountMinor),
              tax_behavior: 'exclusive',
              product_data: { name: `Credit ${reference}` },
            },
          },
        ],
        // Otherwise Stripe may charge the payer's currency.
        adaptive_pricing: { enabled: false },
        invoice_creation: { enabled: true },
        ...(hasTax && { automatic_tax: { enabled: true } }),
        success_url: returnUrl,
        cancel_url: returnUrl,
      },
      { idempotencyKey: paymentId },
    ),
  )
  return { providerRef: session.id, redirectUrl: session.url }
}
