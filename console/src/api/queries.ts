import { queryOptions } from '@tanstack/react-query'
import type { z } from 'zod'
import type { RequestPage, RequestReceipt, RequestsQuery, ShownContent } from '#api/activity.ts'
import type { alertDeliveries, alertList } from '#api/alerts.ts'
import type {
  KeyNames,
  LatencyReport,
  LimitsReport,
  ModelFacts,
  ShareInterval,
  UsageShares,
} from '#api/console-data.ts'
import type { Credits, CreditTransactions } from '#api/credits.ts'
import type { FactorsShown } from '#api/factors.ts'
import type { KeyList } from '#api/keys.ts'
import type { ModelList } from '#api/models.ts'
import type { PaymentOptions, TopUpList } from '#api/payments.ts'
import type { InviteList, MadeKeys, MemberList } from '#api/people.ts'
import type { Interval, TokenUsageReport, UsageBreakdown } from '#api/reports.ts'
import type { RequestSharingShown } from '#api/request-sharing.ts'
import type { SessionList, SignedInSession } from '#api/session.ts'
import type { ConsoleConfig } from '#api/sign-up.ts'
import type { StatusReport } from '#api/status.ts'
import { pages } from './pages.ts'
import { awayDelayMs } from './query-client.ts'
import { isAway, problemOf, queryText, request } from './request.ts'
import { sameSubject } from './same-subject.ts'

// What the screens read. The first part of a key is the area, the second the customer: a hint that something changed
// reloads by area and customer.

const get = <T>(path: string, signal: AbortSignal) => request<T>('GET', path, { signal })

/** The person that is signed in; rejects with the code `not_signed_in` without one. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => get<SignedInSession>('session', signal),
  staleTime: 60_000,
})

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: ({ signal }) => get<SessionList>('sessions', signal),
})

const customer = <T>(area: string, customerId: string, path: string) =>
  queryOptions({
    queryKey: [area, customerId, path],
    queryFn: ({ signal }) => get<T>(`customers/${customerId}/${path}`, signal),
    placeholderData: sameSubject([area, customerId, path]),
  })

export const creditsQuery = (customerId: string) => customer<Credits>('credits', customerId, 'credits')
export const modelsQuery = (customerId: string) => customer<ModelList>('models', customerId, 'models')
/** The keys with what each has spent. */
export const keysQuery = (customerId: string) => customer<KeyList>('key-spend', customerId, 'keys')
/** The names of the keys, which no request changes. */
export const keyNamesQuery = (customerId: string) => customer<KeyNames>('keys', customerId, 'key-names')

export const tokensQuery = (customerId: string, days: number, interval: Interval) =>
  customer<TokenUsageReport>('usage', customerId, `usage/tokens${queryText({ days, interval })}`)

export const breakdownQuery = (customerId: string, days: number) =>
  customer<UsageBreakdown>('usage', customerId, `usage/breakdown${queryText({ days })}`)

export const receiptQuery = (customerId: string, requestId: string) =>
  customer<RequestReceipt>('receipt', customerId, `usage/requests/${requestId}`)

export const contentQuery = (customerId: string, requestId: string) =>
  customer<ShownContent>('content', customerId, `usage/requests/${requestId}/content`)

export type ActivityFilter = Pick<
  RequestsQuery,
  'model' | 'key' | 'provider' | 'success' | 'outcome' | 'label' | 'from' | 'to'
>

export const activityQuery = (customerId: string, filter: ActivityFilter, limit = 100) =>
  pages<RequestPage>(['activity', customerId, filter, limit], `customers/${customerId}/usage/requests`, {
    ...filter,
    limit,
  })

export const statementQuery = (customerId: string) =>
  pages<CreditTransactions>(['credits', customerId, 'statement'], `customers/${customerId}/credits/transactions`)

export const paymentOptionsQuery = (customerId: string) =>
  customer<PaymentOptions>('payments', customerId, 'payment-options')

export const topUpsQuery = (customerId: string) =>
  pages<TopUpList>(['payments', customerId, 'top-ups'], `customers/${customerId}/top-ups`)

export type AlertRule = z.infer<typeof alertList>['data'][number]

export const alertsQuery = (customerId: string) => customer<z.infer<typeof alertList>>('alerts', customerId, 'alerts')

export const deliveriesQuery = (customerId: string, ruleId: string) =>
  customer<z.infer<typeof alertDeliveries>>('deliveries', customerId, `alerts/${ruleId}/deliveries`)

export const latencyQuery = (customerId: string) => customer<LatencyReport>('usage', customerId, 'latency')
export const limitsQuery = (customerId: string) => customer<LimitsReport>('usage', customerId, 'limits')
export const modelFactsQuery = (customerId: string) => customer<ModelFacts>('models', customerId, 'model-facts')
export const peopleQuery = (customerId: string) => customer<MemberList>('people', customerId, 'people')
export const memberKeysQuery = (customerId: string, personId: string) =>
  customer<MadeKeys>('people', customerId, `people/${personId}/keys`)
export const requestSharingQuery = (customerId: string) =>
  customer<RequestSharingShown>('sharing', customerId, 'request-sharing')
export const invitesQuery = (customerId: string) => customer<InviteList>('people', customerId, 'invites')

export const sharesQuery = (
  customerId: string,
  by: 'keys' | 'members' | 'labels' | 'models' | 'providers',
  query: { readonly days: number; readonly interval: ShareInterval; readonly series?: number },
) => customer<UsageShares>('usage', customerId, `usage/${by}${queryText(query)}`)

const STATUS_MS = 10_000

/** The state of models and servers, which the operator may show to everybody. */
export const statusQuery = queryOptions({
  queryKey: ['status'],
  refetchInterval: STATUS_MS,
  async queryFn({ signal }) {
    const response = await fetch('/status.json', { signal })
    if (!response.ok) throw await problemOf(response)
    return (await response.json()) as StatusReport
  },
})

/** What the pages outside need to know. */
export const consoleConfigQuery = queryOptions({
  queryKey: ['config'],
  queryFn: ({ signal }) => get<ConsoleConfig>('config', signal),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Finds out whether the gateway answers. It uses no session, which it would keep from ending. */
export const pulseQuery = queryOptions({
  queryKey: ['pulse'],
  queryFn: ({ signal }) => get<ConsoleConfig>('config', signal),
  refetchInterval: ({ state: { error } }) => (isAway(error) ? awayDelayMs() : PULSE_MS),
})

const PULSE_MS = 15_000

export const factorsQuery = queryOptions({
  queryKey: ['factors'],
  queryFn: ({ signal }) => get<FactorsShown>('factors', signal),
})
