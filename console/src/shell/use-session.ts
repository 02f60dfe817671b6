import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import type { SignedInSession } from '#api/session.ts'
import { sessionQuery } from '../api/queries.ts'

export type Membership = SignedInSession['memberships'][number]
export type MemberRole = Membership['role']

/** The session. Only screens inside of `SignedInOnly` may call it. */
export function useSession(): SignedInSession {
  return useQuery(sessionQuery).data!
}

/** The id of the customer in the address. */
export function useCustomerId(): string {
  return useParams({ strict: false }).customerId!
}

export interface Rights {
  /** Null: an operator or auditor looks at a customer of others. */
  readonly role: MemberRole | null
  readonly seesKeys: boolean
  readonly mayKeys: boolean
  readonly mayAlerts: boolean
  readonly seesCredits: boolean
  readonly mayCredits: boolean
  readonly mayPeople: boolean
}

/**
 * What the person may see and change for the customer in the address. The gateway has the same rules and enforces them.
 */
export function useRights(): Rights {
  const customerId = useCustomerId()
  const role = useSession().memberships.find(each => each.customer_id === customerId)?.role ?? null
  const isOneOf = (...roles: readonly MemberRole[]) => role !== null && roles.includes(role)
  const mayKeys = isOneOf('owner', 'developer')
  const mayCredits = isOneOf('owner', 'billing')
  return {
    role,
    seesKeys: mayKeys || role === null,
    mayKeys,
    mayAlerts: mayKeys,
    seesCredits: mayCredits || role === null,
    mayCredits,
    mayPeople: isOneOf('owner'),
  }
}
