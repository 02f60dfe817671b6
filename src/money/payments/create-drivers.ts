import { createManualDriver } from './manual-driver.ts'
import type { PaymentDriver } from './payment-driver.ts'
import type { StripeSettings } from './stripe/stripe-client.ts'
import { createStripeDriver } from './stripe/stripe-driver.ts'

export interface DriverSettings {
  /** The instructions for manual payments; null if there are none. */
  readonly instructions: string | null
  /** Null: not set up. */
  readonly stripe: StripeSettings | null
}

/** Creates the drivers that are set up. The first one is the default. */
export function createDrivers({ instructions, stripe }: DriverSettings, baseUrl: () => string): PaymentDriver[] {
  return [
    ...(stripe === null ? [] : [createStripeDriver(stripe, baseUrl)]),
    ...(instructions === null ? [] : [createManualDriver(instructions)]),
  ]
}
