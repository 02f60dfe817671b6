import type { Sql } from '../base/db/pool.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import type { GrantShown } from '../wire/api/operator/customers.ts'

/** Returns up to 100 grants of the console, the newest first: those that wait for a second operator, or all. */
export async function listGrants(
  sql: Sql,
  { state, customerId = null, viewerId }: { state: 'waiting' | 'all'; customerId?: string | null; viewerId: string },
): Promise<GrantShown[]> {
  const { rows } = await sql.query<GrantRow>(
    `SELECT grant_id AS id, customer_id AS "customerId", customer.email, amount_nanos AS "amountNanos", reason, ref, g.is_promotion AS "isPromotion", state,
            g.requested_by AS "requesterId", coalesce(asking.email, requested_by::text) AS "requestedBy", requested_at AS "requestedAt",
            coalesce(deciding.email, decided_by::text) AS "decidedBy", decided_at AS "decidedAt"
       FROM grant_request g JOIN customer USING (customer_id)
       LEFT JOIN person asking ON asking.person_id = requested_by
       LEFT JOIN person deciding ON deciding.person_id = decided_by
      WHERE ($1 = 'all' OR state = 'waiting') AND ($2::uuid IS NULL OR customer_id = $2)
      ORDER BY requested_at DESC, grant_id LIMIT 100`,
    [state, customerId],
  )
  return rows.map(row => ({
    id: row.id,
    customer_id: row.customerId,
    email: emailOrNull(row.email),
    amount_usd: usd(row.amountNanos),
    reason: row.reason,
    ref: row.ref,
    is_promotion: row.isPromotion,
    state: row.state,
    requested_by: row.requestedBy,
    requested_at: row.requestedAt.toISOString(),
    decided_by: row.decidedBy,
    decided_at: row.decidedAt?.toISOString() ?? null,
    is_own: row.requesterId === viewerId,
  }))
}

interface GrantRow {
  readonly id: string
  readonly customerId: string
  readonly email: string
  readonly amountNanos: Nanos
  readonly reason: string
  readonly ref: string
  readonly isPromotion: boolean
  readonly state: GrantShown['state']
  readonly requesterId: string
  readonly requestedBy: string
  readonly requestedAt: Date
  readonly decidedBy: string | null
  readonly decidedAt: Date | null
}
