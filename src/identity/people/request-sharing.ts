import { noteAction } from '../../base/db/audit-log.ts'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { ClientTrace, SignedIn } from './sessions.ts'

/**
 * Whether a customer shares its requests for audits of hosters: docs/trust.md. Methods reject with ApiError
 * `database_unavailable`.
 */
export interface RequestSharing {
  isOn(customerId: string): Promise<boolean>
  /** All nodes follow within two seconds. */
  set(
    actor: { readonly signedIn: SignedIn; readonly client: ClientTrace; readonly customerId: string },
    isOn: boolean,
  ): Promise<void>
}

/** @param lookups reads for a client that waits */
export function createRequestSharing({ pool, lookups }: { pool: Pool; lookups: Sql }): RequestSharing {
  return {
    isOn: customerId => readSharing(lookups, customerId).catch(refuseOutage),
    set: ({ signedIn, client, customerId }, isOn) =>
      transaction(pool, async sql => {
        const { rows } = await sql.query<{ email: string }>(
          'UPDATE customer SET shares_requests = $2 WHERE customer_id = $1 AND shares_requests <> $2 RETURNING email',
          [customerId, isOn],
        )
        if (rows[0] === undefined) return
        await bumpControlVersion(sql, 'access')
        await noteAction(sql, {
          action: 'customer.sharing_changed',
          personId: signedIn.person.personId,
          subject: rows[0].email,
          customerId,
          detail: { shares_requests: isOn },
          address: client.address,
        })
      }).catch(refuseOutage),
  }
}

/** False for an unknown customer. */
export async function readSharing(sql: Sql, customerId: string): Promise<boolean> {
  const { rows } = await sql.query<{ shares: boolean }>(
    'SELECT shares_requests AS shares FROM customer WHERE customer_id = $1',
    [customerId],
  )
  return rows[0]?.shares ?? false
}

/** Returns those of these customers that share their requests and are not disabled. */
export async function sharingCustomers(sql: Sql, customerIds: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ customer_id: string }>(
    'SELECT customer_id FROM customer WHERE customer_id = ANY ($1) AND shares_requests AND disabled_at IS NULL',
    [customerIds],
  )
  return new Set(rows.map(({ customer_id }) => customer_id))
}
