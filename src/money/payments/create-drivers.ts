import { type PaymentProviderName, paymentProviderNames } from '../../base/domain/money-drivers.ts'
import { createManualDriver } from './manual-driver.ts'
import type { PaymentDriver } from './payment-driver.ts'
import { type ProviderOptions, type ProviderSettings, providerDrivers } from './payment-providers.ts'

export type DriverSettings = ProviderOptions & {
  /** The instructions for manual payments; null if there are none. */
  readonly instructions: string | null
}

/**
 * Creates the drivers that are set up. The first one is the default.
 *
 * @param baseUrl the address of this gateway for browsers
 */
export function createDrivers(
  settings: Partial<ProviderOptions> & Pick<DriverSettings, 'instructions'>,
  baseUrl: () => string,
): PaymentDriver[] {
  const providers: Partial<ProviderOptions> = settings
  const create = <Name extends PaymentProviderName>(name: Name) => {
    const own: ProviderSettings[Name] | null | undefined = providers[name]
    return own == null ? [] : [providerDrivers[name](own, baseUrl)]
  }
  return [
    ...paymentProviderNames.flatMap(create),
    ...(settings.instructions === null ? [] : [createManualDriver(settings.instructions)]),
  ]
}
