import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import type { HosterInvites } from '../../../market/marketplace/hoster-invites.ts'
import type { TrustService } from '../../../market/trust/trust-service.ts'
import type { DataProtection } from '../../../operator/data-protection.ts'
import type { OperatorConfigService } from '../../../operator/operator-config.ts'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import type { OperatorKeys } from '../../../operator/operator-keys.ts'
import type { OperatorSettingsService } from '../../../operator/operator-settings.ts'
import type { OverviewWatch } from '../../../operator/overview-watch.ts'
import type { PaymentService } from '../../../operator/payments.ts'
import type { PayoutService } from '../../../operator/payouts.ts'
import type { OperatorPeople } from '../../../operator/people.ts'
import type { OperatorPriceGroups } from '../../../operator/price-groups.ts'
import type { OperatorProviderService } from '../../../operator/providers.ts'
import type { OperatorSetup } from '../../../operator/setup.ts'
import type { Endpoint } from '../../endpoint.ts'
import { operatorConfigEndpoints } from './config.ts'
import { operatorCustomerEndpoints } from './customers.ts'
import { operatorDataProtectionEndpoints } from './data-protection.ts'
import { operatorGrantEndpoints } from './grants.ts'
import { operatorHosterInviteEndpoints } from './hoster-invites.ts'
import { operatorInstallationEndpoints } from './installation.ts'
import { operatorKeyEndpoints } from './keys.ts'
import type { OperatorEndpointDeps } from './operator-endpoint.ts'
import { operatorLive, operatorOverview } from './overview.ts'
import { operatorPaymentEndpoints } from './payments.ts'
import { operatorPayoutEndpoints } from './payouts.ts'
import { operatorPeopleEndpoints } from './people.ts'
import { operatorPriceGroupEndpoints } from './price-groups.ts'
import { operatorProviderEndpoints } from './providers.ts'
import { operatorSettingsEndpoints } from './settings.ts'
import { operatorSetupEndpoints } from './setup.ts'
import { operatorSupplyEndpoints } from './supply.ts'
import { operatorTrustEndpoints } from './trust.ts'
import { operatorUsageEndpoints } from './usage.ts'

/** The endpoints under /console/api/operator. docs/console-api.md lists them. */
export function operatorEndpoints(
  deps: OperatorEndpointDeps & {
    readonly operator: OperatorConsole
    readonly watch: OverviewWatch
    readonly paymentService: PaymentService
    readonly payoutService: PayoutService
    readonly trust: TrustService
    readonly people: OperatorPeople
    readonly dataProtection: DataProtection
    readonly keys: OperatorKeys
    readonly providers: OperatorProviderService
    readonly prices: OperatorPriceGroups
    readonly config: OperatorConfigService
    readonly settings: OperatorSettingsService
    readonly hosterInvites: HosterInvites
    readonly setup: OperatorSetup
    readonly urlFor: (request: FastifyRequest, path: string) => string
    readonly clock: Clock
  },
): Endpoint[] {
  return [
    operatorOverview(deps),
    operatorLive(deps),
    ...operatorCustomerEndpoints(deps),
    ...operatorPeopleEndpoints(deps),
    ...operatorDataProtectionEndpoints(deps),
    ...operatorKeyEndpoints(deps),
    ...operatorGrantEndpoints(deps),
    ...operatorPaymentEndpoints(deps),
    ...operatorPayoutEndpoints(deps),
    ...operatorUsageEndpoints(deps),
    ...operatorSupplyEndpoints(deps),
    ...operatorProviderEndpoints(deps),
    ...operatorPriceGroupEndpoints(deps),
    ...operatorConfigEndpoints(deps),
    ...operatorSettingsEndpoints(deps),
    ...operatorHosterInviteEndpoints(deps),
    ...operatorTrustEndpoints(deps),
    ...operatorInstallationEndpoints(deps),
    ...operatorSetupEndpoints(deps),
  ]
}
