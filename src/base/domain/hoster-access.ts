import { type MemberRole, memberRoles } from './member-role.ts'

/**
 * What a key of a hoster may do, for its own hoster only: `serve` connects the agent, `manage` changes models, prices and the state,
 * `read` reads everything. `manage` includes `read`.
 */
export const hosterScopes = ['serve', 'manage', 'read'] as const
export type HosterScope = (typeof hosterScopes)[number]

/**
 * What a member of a hoster needs: `read` shows the hoster, its models and its traffic, `manage` changes models, prices and the state,
 * `keys` reads and changes its keys, `earnings` reads what it earned and its payouts, `people` changes the members.
 */
export type HosterRight = 'read' | 'manage' | 'keys' | 'earnings' | 'people'

const rightsByRole: Readonly<Record<MemberRole, readonly HosterRight[]>> = {
  owner: ['read', 'manage', 'keys', 'earnings', 'people'],
  developer: ['read', 'manage', 'keys'],
  billing: ['read', 'earnings'],
  viewer: ['read'],
}

export function hasHosterRight(role: MemberRole, right: HosterRight): boolean {
  return rightsByRole[role].includes(right)
}

/** Returns the roles that have a right, the least powerful one last. */
export function hosterRolesWith(right: HosterRight): MemberRole[] {
  return memberRoles.filter(role => hasHosterRight(role, right))
}

/** The program or the person that acts for a hoster. */
export interface HosterCaller {
  readonly hosterId: string
  /** The key of a program. Null: a person in the console. */
  readonly keyId: string | null
  /** The person in the console. Null: a program. */
  readonly personId: string | null
  /** What the key may do. Empty for a person, whose role was checked. */
  readonly scopes: readonly HosterScope[]
}

export function hasHosterScope(scopes: readonly HosterScope[], needed: HosterScope): boolean {
  return scopes.includes(needed) || (needed === 'read' && scopes.includes('manage'))
}
