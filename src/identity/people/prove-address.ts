import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { removeFactors } from './factors.ts'
import { unlinkAll } from './identities.ts'
import { endOtherSessions } from './sessions.ts'

/** What other rooms keep for people. Both run in the transaction of the caller. */
export interface PersonAccess {
  /**
   * Revokes the keys of customers and hosters that a person made, on all nodes within two seconds. Returns how many
   * there were.
   */
  revokeKeys(sql: Sql, personId: string): Promise<number>
  /** Ends the alerts of a customer, which name addresses and webhooks. */
  endAlerts(sql: Sql, customerId: string): Promise<void>
}

/**
 * Notes that a person has proved the address. Before the first proof, another person may have held the account: the
 * first proof ends every way into it. Run it before the password or the identity of the proof is stored, and open a
 * session after it.
 */
export type ProveAddress = (sql: Sql, personId: string, nowMs: number) => Promise<void>

export function createProveAddress({ revokeKeys, endAlerts }: PersonAccess): ProveAddress {
  return async (sql, personId, nowMs) => {
    const { isVerified, hasRole } = await queryRow<{ isVerified: boolean; hasRole: boolean }>(
      sql,
      `SELECT email_verified_at IS NOT NULL AS "isVerified", installation_role IS NOT NULL AS "hasRole"
         FROM person WHERE person_id = $1 FOR NO KEY UPDATE`,
      [personId],
    )
    if (isVerified) return
    await sql.query('UPDATE person SET email_verified_at = $2 WHERE person_id = $1', [personId, new Date(nowMs)])
    // Operators and auditors prove themselves by a link of the host, not by an address. A mailbox must not remove their
    // second factor.
    if (hasRole) return
    await endOtherSessions(sql, personId, null)
    await sql.query('UPDATE person SET password_hash = NULL WHERE person_id = $1', [personId])
    await removeFactors(sql, personId)
    await unlinkAll(sql, personId)
    // Attempts from these networks are not slowed down.
    await sql.query('DELETE FROM person_network WHERE person_id = $1', [personId])
    await sql.query('DELETE FROM person_device WHERE person_id = $1', [personId])
    await sql.query('DELETE FROM person_token WHERE person_id = $1 OR made_by = $1', [personId])
    await revokeKeys(sql, personId)
    for (const customerId of await customersOwnedAlone(sql, personId)) await endAlerts(sql, customerId)
  }
}

/** Returns the customers that have no other owner. Those of others keep their alerts. */
async function customersOwnedAlone(sql: Sql, personId: string): Promise<string[]> {
  const { rows } = await sql.query<{ customerId: string }>(
    `SELECT customer_id AS "customerId" FROM membership m WHERE person_id = $1 AND role = 'owner'
        AND NOT EXISTS (SELECT FROM membership o
          WHERE o.customer_id = m.customer_id AND o.role = 'owner' AND o.person_id <> m.person_id)`,
    [personId],
  )
  return rows.map(({ customerId }) => customerId)
}
