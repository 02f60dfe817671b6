import { HOUR_MS } from '../../../base/domain/durations.ts'
import type { PaymentDriver } from '../payment-driver.ts'
import { createCheckout } from './checkout.ts'
import { createStripeClient } from './stripe-client.ts'
import { createStripeProvider } from './stripe-provider.ts'
import type { StripeSettings } from './stripe-settings.ts'

/** Stripe's shortest is 30 minutes. */
const OPEN_MS = HOUR_MS

/** The payer pays on a page of Stripe. @param baseUrl the address of this gateway for browsers */
export function createStripeDriver(settings: StripeSettings, baseUrl: () => string): PaymentDriver {
  const client = createStripeClient(settings)
  return {
    name: 'stripe',
    isLive: settings.isLive,
    openMs: OPEN_MS,
    start: order => createCheckout(client, order, { baseUrl: baseUrl(), hasTax: settings.hasTax }),
    instructionsFor: () => null,
    provider: createStripeProvider(client, settings.webhookSecret),
  }
}
