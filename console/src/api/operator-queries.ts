import { queryOptions } from '@tanstack/react-query'
import type { z } from 'zod'
import type { LatencyReport } from '#api/console-data.ts'
import type { CustomerDetail, CustomerPage, GrantShown } from '#api/operator/customers.ts'
import type { Found } from '#api/operator/find.ts'
import type { OperatorKeyList } from '#api/operator/keys.ts'
import type { AuditLogPage, AuditLogState } from '#api/operator/log.ts'
import type { OperatorMoney } from '#api/operator/money.ts'
import type { Overview } from '#api/operator/overview.ts'
import type { OperatorPayments, VoucherList } from '#api/operator/payments.ts'
import type {
  HosterFundsShown,
  HosterMoneyShown,
  PayoutBatches,
  PayoutBatchShown,
  PromotionReviewsShown,
} from '#api/operator/payouts.ts'
import type { PeoplePage, RoleChanges } from '#api/operator/people.ts'
import type { CustomerPriceGroup, PriceGroups } from '#api/operator/price-groups.ts'
import type { OperatorProviders, ProviderPresetList } from '#api/operator/providers.ts'
import type { OperatorReceipt } from '#api/operator/receipt.ts'
import type { RequestLog } from '#api/operator/requests.ts'
import type { OperatorSettings } from '#api/operator/settings.ts'
import type { SetupReport } from '#api/operator/setup.ts'
import type {
  HosterReview,
  OperatorHosters,
  OperatorModels,
  PriceVersions,
  UnapprovedModels,
} from '#api/operator/supply.ts'
import type { OperatorSystem } from '#api/operator/system.ts'
import type { OperatorUsage, UsageDimension } from '#api/operator/usage.ts'
import type { OperatorInviteList } from '#api/people.ts'
import type { reportProviders } from '#api/reports.ts'
import type { operatorTrust } from '#api/trust.ts'
import { pages } from './pages.ts'
import { queryText, request } from './request.ts'
import { sameSubject } from './same-subject.ts'

// What the operator's screens read.

const operator = <T>(area: string, path: string) =>
  queryOptions({
    queryKey: [area, path],
    queryFn: ({ signal }) => request<T>('GET', `operator/${path}`, { signal }),
    placeholderData: sameSubject([area, path]),
  })

export const overviewQuery = operator<Overview>('overview', 'overview')

export const operatorModelsQuery = operator<OperatorModels>('supply', 'models')
export const unapprovedModelsQuery = operator<UnapprovedModels>('supply', 'model-ids')
export const priceGroupsQuery = operator<PriceGroups>('price-groups', 'price-groups')
export const customerPricesQuery = (id: string) =>
  operator<CustomerPriceGroup>('price-groups', `customers/${id}/price-group`)
export const providersQuery = operator<OperatorProviders>('supply', 'providers')
export const operatorSettingsQuery = operator<OperatorSettings>('settings', 'settings')
export const providerPresetsQuery = operator<ProviderPresetList>('provider-presets', 'provider-presets')
export const hostersQuery = operator<OperatorHosters>('supply', 'hosters')
export const hosterReviewQuery = (id: string) => operator<HosterReview>('supply', `hosters/${id}`)

type OperatorHosterTrust = z.infer<typeof operatorTrust>
export const hosterTrustQuery = (id: string) => operator<OperatorHosterTrust>('supply', `hosters/${id}/trust`)

export const hosterFundsQuery = operator<HosterFundsShown>('payouts', 'earnings')

/** What one hoster has, with its claw-backs. */
export const hosterMoneyQuery = (id: string) => operator<HosterMoneyShown>('payouts', `hosters/${id}/earnings`)

export const payoutBatchesQuery = pages<PayoutBatches>(['payouts', 'list'], 'operator/payouts')

export const promotionReviewsQuery = operator<PromotionReviewsShown>('payouts', 'promotion-reviews')

export const payoutBatchQuery = (id: string) => operator<PayoutBatchShown>('payouts', `payouts/${id}`)

export const pricesQuery = (model: string | undefined) =>
  operator<PriceVersions>('supply', `prices${queryText({ model })}`)

export const operatorPeopleQuery = (filter: { readonly search?: string; readonly show?: string }) =>
  pages<PeoplePage>(['operator-people', filter], 'operator/people', filter)

export const operatorInvitesQuery = operator<OperatorInviteList>('operator-people', 'invites')

export const operatorKeysQuery = operator<OperatorKeyList>('operator-keys', 'keys')

export const roleChangesQuery = operator<RoleChanges>('operator-people', 'role-changes')

export const moneyQuery = operator<OperatorMoney>('money', 'money')

export const paymentsQuery = (filter: { readonly state?: 'open'; readonly review?: 'true' }) =>
  pages<OperatorPayments>(['operator-payments', filter], 'operator/payments', filter)

export const vouchersQuery = pages<VoucherList>(['vouchers'], 'operator/vouchers')

export interface OperatorUsageFilter {
  readonly from?: string
  readonly until?: string
  readonly by?: UsageDimension
  readonly customer?: string
  readonly model?: string
  readonly provider?: (typeof reportProviders)[number]
}

export const operatorUsageQuery = (filter: OperatorUsageFilter) =>
  operator<OperatorUsage>('usage', `usage${queryText({ ...filter })}`)

export const operatorLatencyQuery = operator<LatencyReport>('usage', 'latency')

export const findQuery = (text: string) => operator<Found>('find', `find${queryText({ q: text })}`)

export const requestLogQuery = (filter: Readonly<Record<string, string | undefined>>) =>
  pages<RequestLog>(['usage', 'requests', filter], 'operator/requests', { ...filter })

export const operatorReceiptQuery = (id: string) => operator<OperatorReceipt>('receipt', `requests/${id}`)

export const setupQuery = operator<SetupReport>('setup', 'setup')
export const systemQuery = operator<OperatorSystem>('system', 'system')

export const logStateQuery = (scope: 'newest' | 'all') =>
  operator<AuditLogState>('log', `log/state${queryText({ scope })}`)

export const logQuery = pages<AuditLogPage>(['log', 'list'], 'operator/log')

export const customerQuery = (id: string) => operator<CustomerDetail>('customers', `customers/${id}`)

export const grantsQuery = (state: 'waiting' | 'all') =>
  operator<{ data: GrantShown[] }>('grants', `grants${queryText({ state })}`)

export interface CustomerFilter {
  readonly search?: string
  readonly state?: string
  readonly tier?: string
  readonly sort?: string
  readonly order?: 'asc' | 'desc'
}

export const customersQuery = (filter: CustomerFilter) =>
  pages<CustomerPage>(['customers', 'list', filter], 'operator/customers', { ...filter })
