import type { FastifyRequest } from 'fastify'
import type { Endpoint } from '../../http/endpoint.ts'
import { earningsEndpoints } from '../../http/hosters/earnings-endpoints.ts'
import { createChangeNotices } from '../../money/payouts/change-notices.ts'
import { createPayoutDrivers } from '../../money/payouts/create-payout-drivers.ts'
import { createEarningsService } from '../../money/payouts/earnings-service.ts'
import { applyPayoutChanges } from '../../money/payouts/payout-accounts.ts'
import type { PayoutDriver } from '../../money/payouts/payout-driver.ts'
import { createPayoutSync, type PayoutSync } from '../../money/payouts/payout-sync.ts'
import { closePromotionDays } from '../../money/payouts/promotions.ts'
import { baseUrlOf } from '../config/base-url.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { PeopleMailParts } from './people-mail.ts'

export interface PayoutParts {
  readonly drivers: readonly PayoutDriver[]
  readonly sync: PayoutSync
  /** Applies the changes of accounts that have waited, and mails owners that no mail has reached. */
  readonly applyChanges: () => Promise<void>
  /** Closes the days of promotional earnings that are past their hold. */
  readonly closePromotionDays: () => Promise<void>
  readonly endpoints: readonly Endpoint[]
}

/** Creates the drivers that pay hosters, and the endpoints of what hosters earned. */
export function createPayoutParts(
  { config, clock, log }: ComposeContext,
  { desk }: Database,
  { mail }: PeopleMailParts,
  addressOf: (request: FastifyRequest) => string,
): PayoutParts {
  const drivers = createPayoutDrivers(config.payouts, hosterId => `${baseUrlOf(config)}/h/${hosterId}/earnings`)
  const notices = createChangeNotices({ pool: desk, clock, mail, log })
  const earnings = createEarningsService({ pool: desk, clock, drivers, rules: config.payouts, notices })
  return {
    drivers,
    sync: createPayoutSync({ pool: desk, clock, drivers, rules: config.payouts, log }),
    async applyChanges() {
      await applyPayoutChanges(desk, clock.epochMs())
      await notices.send()
    },
    closePromotionDays: () => closePromotionDays(desk, config.payouts, clock.epochMs()),
    endpoints: earningsEndpoints({
      service: earnings,
      addressOf,
      bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
    }),
  }
}
