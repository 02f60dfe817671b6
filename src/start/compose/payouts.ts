import { baseUrlOf } from '../../config/base-url.ts'
import { createPayoutDrivers } from '../../payouts/create-payout-drivers.ts'
import type { PayoutDriver } from '../../payouts/payout-driver.ts'
import { createPayoutSync, type PayoutSync } from '../../payouts/payout-sync.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

export interface PayoutParts {
  readonly drivers: readonly PayoutDriver[]
  readonly sync: PayoutSync
}

/** Creates the drivers that pay hosters. */
export function createPayoutParts({ config, clock, log }: ComposeContext, { general }: Database): PayoutParts {
  const drivers = createPayoutDrivers(config.payouts.stripe, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
  return { drivers, sync: createPayoutSync({ pool: general, clock, drivers, log }) }
}
