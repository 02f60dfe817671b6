/** What a person may do for a customer. */
export const memberRoles = ['owner', 'developer', 'billing', 'viewer'] as const
export type MemberRole = (typeof memberRoles)[number]

/** What became of the keys that a member made. */
export interface EndedKeys {
  readonly revoked: number
  readonly handedOver: number
}

/** The rights of a person on the whole installation: an operator has all, an auditor may read everything. */
export const installationRoles = ['operator', 'auditor'] as const
export type InstallationRole = (typeof installationRoles)[number]

/** What an invitation makes of a person. */
export type InvitedRole = MemberRole | InstallationRole

/**
 * What a page of the console needs. `usage` reads reports, the balance and the models; `credits` the statement and
 * payments; `keys` and `alerts` read and change those; `people` reads and changes the members.
 */
export type CustomerRight = 'usage' | 'credits' | 'keys' | 'alerts' | 'people'

const rightsByRole: Readonly<Record<MemberRole, readonly CustomerRight[]>> = {
  owner: ['usage', 'credits', 'keys', 'alerts', 'people'],
  developer: ['usage', 'keys', 'alerts'],
  billing: ['usage', 'credits'],
  viewer: ['usage'],
}

export function hasRight(role: MemberRole, right: CustomerRight): boolean {
  return rightsByRole[role].includes(right)
}

/** Returns the roles that have a right, the least powerful one last. */
export function rolesWith(right: CustomerRight): MemberRole[] {
  return memberRoles.filter(role => hasRight(role, right))
}
