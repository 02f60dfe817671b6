import { type PayoutDriverName, payoutLabels } from '../base/domain/money-drivers.ts'
import { createPayoutDrivers } from '../money/payouts/create-payout-drivers.ts'
import type { PayoutDriver } from '../money/payouts/payout-driver.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import type { Config } from '../start/config/config.ts'
import { Failure } from './failure.ts'

export function payoutDriversOf(config: Config): PayoutDriver[] {
  return createPayoutDrivers(config.payouts, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
}

/** Throws Failure if the driver is not set up. */
export function payoutDriverOf(config: Config, name: PayoutDriverName): PayoutDriver {
  const driver = payoutDriversOf(config).find(each => each.name === name)
  if (driver !== undefined) return driver
  throw new Failure(`${payoutLabels[name]} is not set up for payouts. Set payouts.${name} and payments.${name}.`)
}
