import { createPayoutDrivers } from '../money/payouts/create-payout-drivers.ts'
import type { PayoutDriver } from '../money/payouts/payout-driver.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import type { Config } from '../start/config/config.ts'

export function payoutDriversOf(config: Config): PayoutDriver[] {
  return createPayoutDrivers(config.payouts.stripe, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
}
