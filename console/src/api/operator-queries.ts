import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { CustomerDetail, CustomerPage, GrantShown } from '#api/operator/customers.ts'
import type { AuditLogPage, AuditLogState } from '#api/operator/log.ts'
import type { Overview } from '#api/operator/overview.ts'
import type { OperatorSystem } from '#api/operator/system.ts'
import { queryText, request } from './request.ts'

// What the operator's screens read.

const operator = <T>(area: string, path: string) =>
  queryOptions({
    queryKey: [area, path],
    queryFn: ({ signal }) => request<T>('GET', `operator/${path}`, { signal }),
    placeholderData: keepPreviousData,
  })

const REFRESH_MS = 5_000

export const overviewQuery = queryOptions({
  ...operator<Overview>('overview', 'overview'),
  refetchInterval: REFRESH_MS,
})

export const systemQuery = operator<OperatorSystem>('system', 'system')

export const logStateQuery = operator<AuditLogState>('log', 'log/state')

export const logQuery = infiniteQueryOptions({
  queryKey: ['log', 'list'],
  queryFn: ({ signal, pageParam: cursor }) =>
    request<AuditLogPage>('GET', `operator/log${queryText({ cursor })}`, { signal }),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: page => page.next_cursor ?? undefined,
})

export const customerQuery = (id: string) => operator<CustomerDetail>('customers', `customers/${id}`)

export const grantsQuery = (state: 'waiting' | 'all') =>
  operator<{ data: GrantShown[] }>('grants', `grants${queryText({ state })}`)

export interface CustomerFilter {
  readonly search?: string
  readonly state?: string
  readonly tier?: string
}

export const customersQuery = (filter: CustomerFilter) =>
  infiniteQueryOptions({
    queryKey: ['customers', 'list', filter],
    queryFn: ({ signal, pageParam: cursor }) =>
      request<CustomerPage>('GET', `operator/customers${queryText({ ...filter, cursor })}`, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: page => page.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
  })
