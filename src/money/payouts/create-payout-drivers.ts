import { type PayoutProviderName, payoutProviderNames } from '../../base/domain/money-drivers.ts'
import type { ProviderOptions, ProviderSettings } from '../payments/payment-providers.ts'
import { createCsvDriver } from './csv-driver.ts'
import type { PayoutDriver } from './payout-driver.ts'
import { createStripeConnectDriver } from './stripe/stripe-connect-driver.ts'

/** Where the providers that pay hosters are registered. */
const creators: {
  readonly [Name in PayoutProviderName]: (
    settings: ProviderSettings[Name],
    pageOf: (hosterId: string) => string,
  ) => PayoutDriver
} = { stripe: createStripeConnectDriver }

/** The settings of the providers, which are those of payments. Null: a provider pays no hosters. */
export type PayoutOptions = Pick<ProviderOptions, PayoutProviderName>

/** @param pays which of the providers pay hosters */
export function payoutOptions(
  pays: Readonly<Record<PayoutProviderName, boolean>>,
  providers: ProviderOptions,
): PayoutOptions {
  return { stripe: pays.stripe ? providers.stripe : null }
}

/**
 * Creates the drivers that are set up. Bank transfers always are.
 *
 * @param pageOf the address of a hoster's page of earnings
 */
export function createPayoutDrivers(settings: PayoutOptions, pageOf: (hosterId: string) => string): PayoutDriver[] {
  const create = <Name extends PayoutProviderName>(name: Name) => {
    const own: ProviderSettings[Name] | null = settings[name]
    return own === null ? [] : [creators[name](own, pageOf)]
  }
  return [createCsvDriver(), ...payoutProviderNames.flatMap(create)]
}
