import type { StripeSettings } from '../payments/stripe/stripe-client.ts'
import { createCsvDriver } from './csv-driver.ts'
import type { PayoutDriver } from './payout-driver.ts'
import { createStripeConnectDriver } from './stripe-connect-driver.ts'

/**
 * Creates the drivers that are set up.
 *
 * @param stripe null: hosters are paid by bank transfer only
 * @param pageOf the address of a hoster's page of earnings
 */
export function createPayoutDrivers(
  stripe: StripeSettings | null,
  pageOf: (hosterId: string) => string,
): PayoutDriver[] {
  return [createCsvDriver(), ...(stripe === null ? [] : [createStripeConnectDriver(stripe, pageOf)])]
}
