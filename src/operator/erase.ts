import { noteAction } from '../base/db/audit-log.ts'
import type { Sql } from '../base/db/pool.ts'
import type { Acting } from '../base/domain/acting.ts'
import type { InstallationRole } from '../base/domain/member-role.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { revokeAllKeys, revokeKeysOfPerson } from '../identity/auth/keys.ts'
import { erasePeople, ownedAlone } from '../identity/people/erase-people.ts'
import { revokeHosterKeysOfPerson } from '../market/marketplace/hoster-keys.ts'
import { deleteCustomer } from '../money/accounts/customers.ts'
import { eraseRulesOf } from '../money/alerts/alert-store.ts'
import { readBalance } from '../money/ledger/accounts/read-balance.ts'
import { deleteContents } from '../money/usage/content/delete-contents.ts'

export interface ErasedCustomer {
  readonly revokedKeys: number
  /** What the books keep under the id of the customer. */
  readonly balanceNanos: Nanos
}

/**
 * Erases a customer: its addresses, what its keys recorded, and the people who belong to nothing else; revokes its keys. Its balance
 * and ledger stay. Run it in a transaction. Returns undefined, and changes nothing, if an operator is a member.
 */
export async function eraseCustomer(
  sql: Sql,
  { personId, keyId, address }: Acting,
  customerId: string,
): Promise<ErasedCustomer | undefined> {
  if (!(await deleteCustomer(sql, customerId))) return undefined
  const revokedKeys = await revokeAllKeys(sql, customerId)
  await eraseRulesOf(sql, customerId)
  await deleteContents(sql, customerId)
  const balanceNanos = (await readBalance(sql, customerId))?.postedNanos ?? 0n
  await noteAction(sql, {
    ...{ personId, keyId, address, action: 'customer.deleted', customerId },
    // Its address is erased, here too.
    subject: customerId,
    detail: { revoked_keys: revokedKeys, balance_usd: usdText(balanceNanos) },
  })
  return { revokedKeys, balanceNanos }
}

/** Why a person cannot be erased: the role on the installation, or what would have no owner. */
export type KeptPerson =
  | { readonly role: InstallationRole; readonly ownedAlone?: never }
  | { readonly role?: never; readonly ownedAlone: readonly string[] }

/**
 * Erases a person, and revokes the keys that the person made. Run it in a transaction. Returns why not, and changes nothing, for a
 * person with a role or one who alone owns something.
 */
export async function erasePerson(
  sql: Sql,
  acting: Acting,
  { personId, installationRole }: { readonly personId: string; readonly installationRole: InstallationRole | null },
): Promise<{ readonly revokedKeys: number } | KeptPerson> {
  if (installationRole !== null) return { role: installationRole }
  const alone = await ownedAlone(sql, personId)
  if (alone.length > 0) return { ownedAlone: alone }
  const revokedKeys = (await revokeKeysOfPerson(sql, personId)) + (await revokeHosterKeysOfPerson(sql, personId))
  await erasePeople(sql, [personId])
  const { keyId, address } = acting
  await noteAction(sql, {
    ...{ personId: acting.personId, keyId, address, action: 'person.deleted' },
    // The address is erased, here too.
    subject: personId,
    detail: { revoked_keys: revokedKeys },
  })
  return { revokedKeys }
}
