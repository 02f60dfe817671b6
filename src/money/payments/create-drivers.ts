import { type PaymentProviderName, paymentProviderNames } from '../../base/domain/money-drivers.ts'
import { createManualDriver } from './manual-driver.ts'
import type { PaddleSettings } from './paddle/paddle-client.ts'
import { createPaddleDriver } from './paddle/paddle-driver.ts'
import type { PaymentDriver } from './payment-driver.ts'
import type { StripeSettings } from './stripe/stripe-client.ts'
import { createStripeDriver } from './stripe/stripe-driver.ts'

/** The settings of each payment provider. */
interface ProviderSettings {
  readonly stripe: StripeSettings
  readonly paddle: PaddleSettings
}

const creators: {
  readonly [Name in PaymentProviderName]: (settings: ProviderSettings[Name], baseUrl: () => string) => PaymentDriver
} = { stripe: createStripeDriver, paddle: createPaddleDriver }

/** The providers. Null: not set up. */
type ProviderOptions = { readonly [Name in PaymentProviderName]?: ProviderSettings[Name] | null }

export type DriverSettings = ProviderOptions & {
  /** The instructions for manual payments; null if there are none. */
  readonly instructions: string | null
}

/**
 * Creates the drivers that are set up. The first one is the default.
 *
 * @param baseUrl the address of this gateway for browsers
 */
export function createDrivers(settings: DriverSettings, baseUrl: () => string): PaymentDriver[] {
  const providers: ProviderOptions = settings
  const create = <Name extends PaymentProviderName>(name: Name) => {
    const own: ProviderSettings[Name] | null | undefined = providers[name]
    return own == null ? [] : [creators[name](own, baseUrl)]
  }
  return [
    ...paymentProviderNames.flatMap(create),
    ...(settings.instructions === null ? [] : [createManualDriver(settings.instructions)]),
  ]
}
