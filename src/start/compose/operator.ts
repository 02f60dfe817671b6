import { baseUrlOf } from '../../config/base-url.ts'
import { limitsOfTier } from '../../config/config.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { OperatorDoor } from '../../http/endpoints/operator/operator-endpoint.ts'
import { operatorEndpoints } from '../../http/endpoints/operator/operator-endpoints.ts'
import { createOperatorConsole, type OperatorConsole } from '../../operator/operator-console.ts'
import { createOverviewWatch } from '../../operator/overview-watch.ts'
import { createPaymentDesk } from '../../operator/payments.ts'
import { createPayoutDesk } from '../../operator/payouts.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import { pageUrl } from './page-url.ts'
import type { PaymentParts } from './payments.ts'
import type { PayoutParts } from './payouts.ts'
import { shownSettings } from './shown-settings.ts'
import { smallBodyLimit } from './small-body-limit.ts'
import type { Supply } from './supply.ts'
import type { Trust } from './trust.ts'

export interface Operator {
  readonly console: OperatorConsole
  readonly endpoints: readonly Endpoint[]
}

/** Creates the endpoints under /console/api/operator. */
export function createOperator(
  { config, clock, version, scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { catalog }: Supply,
  { drivers, sync }: PaymentParts,
  payouts: PayoutParts,
  { desk: trust }: Trust,
  { invites: hosterInvites }: Marketplace,
  addressOf: OperatorDoor['addressOf'],
): Operator {
  const operator = createOperatorConsole({
    pool: general,
    clock,
    offers: () => catalog.current().offers,
    tiers: { limitsOf: tier => limitsOfTier(config, tier), names: Object.keys(config.accountTiers) },
    signup: config.signup,
    version,
    settings: shownSettings(config),
    showsServerNames: config.status.showsNames,
    baseUrl: baseUrlOf(config),
  })
  const { overviewIntervalMs: everyMs } = timeouts
  const watch = createOverviewWatch({
    sql: general,
    read: operator.overview,
    scheduler,
    log,
    ...(everyMs !== undefined && { everyMs }),
  })
  started.defer(() => watch.stop())
  const desk = createPaymentDesk({ pool: general, clock, drivers, sync })
  const payoutDesk = createPayoutDesk({ pool: general, clock, ...payouts, rules: config.payouts })
  const door = {
    operator,
    desk,
    payoutDesk,
    trust,
    hosterInvites,
    urlFor: pageUrl(config.server.publicBaseUrl),
    watch,
    clock,
    addressOf,
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
  }
  return {
    console: operator,
    endpoints: operatorEndpoints(door),
  }
}
