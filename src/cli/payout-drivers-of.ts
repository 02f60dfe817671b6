import { baseUrlOf } from '../config/base-url.ts'
import type { Config } from '../config/config.ts'
import { createPayoutDrivers } from '../payouts/create-payout-drivers.ts'
import type { PayoutDriver } from '../payouts/payout-driver.ts'

export function payoutDriversOf(config: Config): PayoutDriver[] {
  return createPayoutDrivers(config.payouts.stripe, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
}
