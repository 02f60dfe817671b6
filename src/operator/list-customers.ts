import type { Sql } from '../base/db/pool.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { pageOf } from '../wire/api/cursor.ts'
import type { CustomerPage, CustomerState, CustomersQuery, ListedCustomer } from '../wire/api/operator/customers.ts'

/**
 * Returns a page of customers, the newest first. New customers do not shift the pages.
 *
 * @param after the id of the last customer of the page before; null for the first page
 */
export async function listCustomers(
  sql: Sql,
  { search, state, tier, limit }: CustomersQuery,
  after: string | null,
  nowMs: number,
): Promise<CustomerPage> {
  const { rows } = await sql.query<CustomerRow>(LIST, [
    new Date(nowMs),
    // One more shows whether there is a next page.
    limit + 1,
    after,
    state ?? null,
    tier ?? null,
    search === undefined || search.trim() === '' ? null : likePattern(search.trim().toLowerCase()),
  ])
  const { page, next_cursor } = pageOf(rows, limit, row => row.customerId)
  return {
    data: page.map(showCustomer),
    next_cursor,
  }
}

/** Returns one customer as in the list; undefined when it does not exist. */
export async function findListedCustomer(sql: Sql, id: string, nowMs: number): Promise<ListedCustomer | undefined> {
  const { rows } = await sql.query<CustomerRow>(FIND, [new Date(nowMs), id])
  return rows[0] && showCustomer(rows[0])
}

interface CustomerRow {
  readonly customerId: string
  readonly email: string
  readonly accountTier: string
  readonly createdAt: Date
  readonly state: CustomerState
  readonly balanceNanos: Nanos
  readonly heldNanos: Nanos
  readonly spentNanos: Nanos
  readonly requests: bigint
  readonly lastDay: string | null
  readonly people: bigint
  readonly keys: bigint
}

function showCustomer(row: CustomerRow): ListedCustomer {
  return {
    id: row.customerId,
    email: emailOrNull(row.email),
    tier: row.accountTier,
    state: row.state,
    created_at: row.createdAt.toISOString(),
    balance_usd: usd(row.balanceNanos),
    held_usd: usd(row.heldNanos),
    spent_30d_usd: usd(row.spentNanos),
    requests_30d: Number(row.requests),
    last_used_on: row.lastDay,
    people: Number(row.people),
    keys: Number(row.keys),
  }
}

/** The pattern of LIKE that finds `text` anywhere. */
function likePattern(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`
}

const STATE = `CASE WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN disabled_at IS NOT NULL THEN 'paused' ELSE 'active' END`

// The figures of the rows of one page only, each along the index of its table.
const figuresOf = (customers: string) => `
SELECT c.customer_id AS "customerId", c.email, c.account_tier AS "accountTier", c.created_at AS "createdAt", c.state,
  coalesce(b.posted_nanos - l.settled, 0) AS "balanceNanos", coalesce(b.leased_nanos - l.settled, 0) AS "heldNanos",
  u.cost AS "spentNanos", u.requests, u.last_day AS "lastDay", m.people, k.keys
FROM (${customers}) AS c
LEFT JOIN balance b USING (customer_id)
CROSS JOIN LATERAL (
  SELECT coalesce(sum(settled_nanos), 0)::bigint AS settled FROM lease WHERE lease.customer_id = c.customer_id AND slots IS NOT NULL
) AS l
CROSS JOIN LATERAL (
  SELECT coalesce(sum(cost_nanos), 0)::bigint AS cost, coalesce(sum(requests), 0)::bigint AS requests, to_char(max(day), 'YYYY-MM-DD') AS last_day
  FROM usage_day WHERE usage_day.customer_id = c.customer_id AND day > ($1::timestamptz AT TIME ZONE 'UTC')::date - 30
) AS u
CROSS JOIN LATERAL (SELECT count(*) AS people FROM membership WHERE membership.customer_id = c.customer_id) AS m
CROSS JOIN LATERAL (SELECT count(*) AS keys FROM api_key WHERE api_key.customer_id = c.customer_id AND revoked_at IS NULL) AS k
ORDER BY c.created_at DESC, c.customer_id DESC`

// Customers are few enough to look for a part of an address in all of them: 10,000 take 10 ms. An id is found by its beginning:
// without its first %, the pattern $6 is that.
const LIST = figuresOf(`
  SELECT customer_id, email, account_tier, created_at, ${STATE} AS state
  FROM customer
  WHERE ($3::uuid IS NULL OR (created_at, customer_id) < (SELECT p.created_at, p.customer_id FROM customer p WHERE p.customer_id = $3))
    AND CASE WHEN $4::text IS NULL THEN deleted_at IS NULL ELSE $4 = ${STATE} END
    -- The accounts that audits are paid from.
    AND NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = customer.customer_id)
    AND ($5::text IS NULL OR account_tier = $5)
    AND ($6::text IS NULL OR lower(email) LIKE $6 OR customer_id::text LIKE substr($6, 2)
      OR customer_id IN (SELECT s.customer_id FROM membership s JOIN person p USING (person_id) WHERE lower(p.email) LIKE $6 OR lower(p.name) LIKE $6))
  ORDER BY created_at DESC, customer_id DESC
  LIMIT $2`)

const FIND = figuresOf(
  `SELECT customer_id, email, account_tier, created_at, ${STATE} AS state FROM customer WHERE customer_id = $2`,
)
