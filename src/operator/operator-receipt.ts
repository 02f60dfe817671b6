import type { Sql } from '../base/db/pool.ts'
import { HOUR_MS } from '../base/domain/durations.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import type { ProviderKind } from '../base/domain/offer.ts'
import { uuidTimeMs } from '../base/runtime/uuid.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { readReceipt } from '../money/usage/read-receipt.ts'
import type { OperatorReceipt } from '../wire/api/operator/receipt.ts'

interface MoneyRow {
  readonly customerId: string
  readonly email: string | null
  readonly hosterId: string | null
  readonly paid: Nanos
  readonly share: Nanos
  readonly fee: Nanos
  readonly provider: ProviderKind | 'none'
  /** What a server charged. Null: nothing was declared, and always so for hosters, which get a share. */
  readonly upstream: Nanos | null
}

/** Returns everything known about one request of any customer; null when there is no such request. */
export async function readOperatorReceipt(sql: Sql, requestId: string): Promise<OperatorReceipt | null> {
  const money = await readMoneyOf(sql, requestId)
  if (money === null) return null
  const { customerId, email, paid, fee } = money
  const receipt = await readReceipt(sql, customerId, requestId)
  if (receipt === null) return null
  const cost = costOf(money)
  return {
    customer: { id: customerId, email: email === null ? null : emailOrNull(email) },
    receipt,
    paid_usd: usd(paid),
    fee_usd: usd(fee),
    cost_usd: cost === null ? null : usd(cost),
    margin_usd: cost === null ? null : usd(paid - cost),
    errors: await readErrors(sql, requestId),
  }
}

/** A local server costs nothing per token unless the operator declares it; what a cloud costs is unknown then, as in reports. */
function costOf({ hosterId, provider, share, upstream }: MoneyRow): Nanos | null {
  if (hosterId !== null) return share
  return upstream ?? (provider === 'cloud' ? null : 0n)
}

/** Returns who sent a request, and where its money went after refunds. An id has the time of the request, by the clock of its node. */
async function readMoneyOf(sql: Sql, requestId: string): Promise<MoneyRow | null> {
  const atMs = uuidTimeMs(requestId)
  const { rows } = await sql.query<MoneyRow>(
    `SELECT u.customer_id AS "customerId", c.email, u.hoster_id AS "hosterId", u.provider,
            u.cost_nanos - coalesce(r.amount_nanos, 0) AS paid,
            u.hoster_share_nanos - coalesce(r.hoster_share_nanos, 0) AS share,
            u.fee_nanos - coalesce(r.fee_nanos, 0) AS fee, u.upstream_cost_nanos AS upstream
       FROM usage_event u
       LEFT JOIN customer c USING (customer_id)
       LEFT JOIN refund r ON r.customer_id = u.customer_id AND r.request_id = u.request_id
      WHERE u.request_id = $1 AND u.started_at BETWEEN $2 AND $3`,
    [requestId, new Date(atMs - HOUR_MS), new Date(atMs + HOUR_MS)],
  )
  return rows[0] ?? null
}

async function readErrors(sql: Sql, requestId: string): Promise<OperatorReceipt['errors']> {
  const { rows } = await sql.query<OperatorReceipt['errors'][number]>(
    'SELECT endpoint_id AS server, model_id AS model, status, text FROM server_error WHERE request_id = $1 ORDER BY error_id',
    [requestId],
  )
  return rows
}
