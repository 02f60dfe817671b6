import type { FastifyRequest } from 'fastify'
import { baseUrlOf } from '../../config/base-url.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { earningsEndpoints } from '../../http/hosters/earnings-endpoints.ts'
import { createPayoutDrivers } from '../../payouts/create-payout-drivers.ts'
import { createEarningsDesk } from '../../payouts/earnings-desk.ts'
import type { PayoutDriver } from '../../payouts/payout-driver.ts'
import { createPayoutSync, type PayoutSync } from '../../payouts/payout-sync.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { smallBodyLimit } from './small-body-limit.ts'

export interface PayoutParts {
  readonly drivers: readonly PayoutDriver[]
  readonly sync: PayoutSync
  readonly endpoints: readonly Endpoint[]
}

/** Creates the drivers that pay hosters, and the endpoints of what hosters earned. */
export function createPayoutParts(
  { config, clock, log }: ComposeContext,
  { general }: Database,
  addressOf: (request: FastifyRequest) => string,
): PayoutParts {
  const drivers = createPayoutDrivers(config.payouts.stripe, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
  const desk = createEarningsDesk({ pool: general, clock, drivers, rules: config.payouts })
  return {
    drivers,
    sync: createPayoutSync({ pool: general, clock, drivers, log }),
    endpoints: earningsEndpoints({ desk, addressOf, bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes) }),
  }
}
