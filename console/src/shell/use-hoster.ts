import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { type HosterMemberships, hosterMembershipsQuery } from '../api/hoster-queries.ts'
import type { MemberRole } from './use-session.ts'

export type HosterMembership = HosterMemberships['data'][number]

/** The id of the hoster in the address. */
export function useHosterId(): string {
  return useParams({ strict: false }).hosterId!
}

/** The hosters of the person; undefined until they are read. */
export function useHosterMemberships(): readonly HosterMembership[] | undefined {
  return useQuery(hosterMembershipsQuery).data?.data
}

export interface HosterRights {
  /** Null: an operator or auditor looks at a hoster of others. */
  readonly role: MemberRole | null
  readonly mayManage: boolean
  readonly seesKeys: boolean
  readonly mayKeys: boolean
  readonly seesEarnings: boolean
  readonly mayEarnings: boolean
  readonly seesPeople: boolean
  readonly mayPeople: boolean
}

/**
 * What the person may see and change for the hoster in the address. The gateway has the same rules and enforces them.
 */
export function useHosterRights(): HosterRights {
  const hosterId = useHosterId()
  const role = useHosterMemberships()?.find(({ id }) => id === hosterId)?.role ?? null
  const isOneOf = (...roles: readonly MemberRole[]) => role !== null && roles.includes(role)
  const isVisitor = role === null
  const mayManage = isOneOf('owner', 'developer')
  const mayEarnings = isOneOf('owner', 'billing')
  const mayPeople = isOneOf('owner')
  return {
    role,
    mayManage,
    seesKeys: mayManage || isVisitor,
    mayKeys: mayManage,
    seesEarnings: mayEarnings || isVisitor,
    mayEarnings,
    seesPeople: mayPeople || isVisitor,
    mayPeople,
  }
}
