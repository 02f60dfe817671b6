import type * as z from 'zod'
import type { PaymentProviderName } from '../../base/domain/money-drivers.ts'
import { createPaddleDriver } from './paddle/paddle-driver.ts'
import { type PaddleSettings, paddleSchema, readPaddleSettings } from './paddle/paddle-settings.ts'
import type { PaymentDriver, SettingTypes } from './payment-driver.ts'
import { createStripeDriver } from './stripe/stripe-driver.ts'
import { readStripeSettings, type StripeSettings, stripeSchema } from './stripe/stripe-settings.ts'

// Providers are registered here. Their names and labels are in base/domain/money-drivers.ts; a name that lacks an entry
// is a type error.

/** The settings of each provider that is set up. */
export interface ProviderSettings extends Readonly<Record<PaymentProviderName, { readonly isLive: boolean }>> {
  readonly stripe: StripeSettings
  readonly paddle: PaddleSettings
}

/** The settings of the providers. Null: not set up. */
export type ProviderOptions = { readonly [Name in PaymentProviderName]: ProviderSettings[Name] | null }

/** What stands below `payments` of the configuration file, by provider. */
export const providerSchemas = (types: SettingTypes) =>
  ({ stripe: stripeSchema(types).prefault({}), paddle: paddleSchema(types).prefault({}) }) satisfies Record<
    PaymentProviderName,
    z.ZodType
  >

type Written = { readonly [Name in PaymentProviderName]: z.output<ReturnType<typeof providerSchemas>[Name]> }

export function readProviders({ stripe, paddle }: Written): ProviderOptions {
  return { stripe: readStripeSettings(stripe), paddle: readPaddleSettings(paddle) }
}

/** `baseUrl` returns the address of this gateway for browsers. */
export const providerDrivers: {
  readonly [Name in PaymentProviderName]: (settings: ProviderSettings[Name], baseUrl: () => string) => PaymentDriver
} = { stripe: createStripeDriver, paddle: createPaddleDriver }
