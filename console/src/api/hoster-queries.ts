import { queryOptions } from '@tanstack/react-query'
import type { z } from 'zod'
import type { Earnings } from '#api/earnings.ts'
import type { HosterOffers, HosterStatus, HosterTraffic } from '#api/hoster-console.ts'
import type { Verification } from '#api/hoster-verification.ts'
import type { hosterKeyList, hosterMembers, hosterMemberships, ownHoster } from '#api/hosters.ts'
import type { HosterPayouts, PayoutAccountShown } from '#api/payouts.ts'
import type { InviteList } from '#api/people.ts'
import type { ownTrust } from '#api/trust.ts'
import { pages } from './pages.ts'
import { queryText, request } from './request.ts'
import { sameSubject } from './same-subject.ts'

// What the screens of a hoster read.

export type HosterMemberships = z.infer<typeof hosterMemberships>
export type OwnHoster = z.infer<typeof ownHoster>
export type OwnTrust = z.infer<typeof ownTrust>
export type HosterKey = z.infer<typeof hosterKeyList>['data'][number]
export type HosterMember = z.infer<typeof hosterMembers>['data'][number]

/** The hosters of the person. */
export const hosterMembershipsQuery = queryOptions({
  queryKey: ['hosters'],
  queryFn: ({ signal }) => request<HosterMemberships>('GET', 'hosters', { signal }),
  staleTime: 60_000,
})

const hoster = <T>(area: string, hosterId: string, path: string) =>
  queryOptions({
    queryKey: [area, hosterId, path],
    queryFn: ({ signal }) => request<T>('GET', `hosters/${hosterId}${path}`, { signal }),
    placeholderData: sameSubject([area, hosterId, path]),
  })

/**
 * The screens of a hoster show what programs, agents and the gateway change: they read it again while they are visible.
 */
const LIVE_MS = 5_000
/** While the gateway verifies a hoster, its owner waits for the result. */
const WAITING_MS = 2_000

const live = { refetchInterval: LIVE_MS, staleTime: 0 } as const

export const hosterQuery = (id: string) => ({ ...hoster<OwnHoster>('hoster', id, ''), ...live })
export const hosterStatusQuery = (id: string) => ({ ...hoster<HosterStatus>('hoster', id, '/status'), ...live })
export const verificationQuery = (id: string) => ({
  ...hoster<Verification>('hoster', id, '/verification'),
  refetchInterval: WAITING_MS,
  staleTime: 0,
})
export const offersQuery = (id: string) => hoster<HosterOffers>('hoster', id, '/offers')
export const trustQuery = (id: string) => hoster<OwnTrust>('hoster', id, '/trust')
export const hosterKeysQuery = (id: string) => hoster<z.infer<typeof hosterKeyList>>('hoster-keys', id, '/keys')
export const hosterPeopleQuery = (id: string) => hoster<z.infer<typeof hosterMembers>>('hoster-people', id, '/people')
export const hosterInvitesQuery = (id: string) => hoster<InviteList>('hoster-people', id, '/invites')
export const payoutAccountQuery = (id: string) => hoster<PayoutAccountShown>('earnings', id, '/payout-account')

/** A span of UTC days, both included. */
export interface DaySpan {
  readonly from: string
  readonly until: string
}

export const trafficQuery = (id: string, span: DaySpan) =>
  hoster<HosterTraffic>('hoster', id, `/traffic${queryText({ ...span })}`)

export const earningsQuery = (id: string, span: DaySpan) =>
  hoster<Earnings>('earnings', id, `/earnings${queryText({ ...span })}`)

export const hosterPayoutsQuery = (id: string) =>
  pages<HosterPayouts>(['earnings', id, 'payouts'], `hosters/${id}/payouts`)

/** The span of UTC days that ends today. */
export function lastDays(days: number): DaySpan {
  const now = Date.now()
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  return { from: day(now - (days - 1) * 86_400_000), until: day(now) }
}
