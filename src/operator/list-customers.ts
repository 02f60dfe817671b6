import type { Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { pageOf } from '../wire/api/cursor.ts'
import {
  type CustomerPage,
  type CustomerSort,
  type CustomerState,
  type CustomersQuery,
  customersCursor,
  type ListedCustomer,
} from '../wire/api/operator/customers.ts'

/**
 * Returns a page of customers. New customers do not shift the pages. A figure that changes between two pages may show its
 * customer on both, or on none.
 *
 * @param after the key of the cursor of the page before; null for the first page
 */
export async function listCustomers(
  sql: Sql,
  { search, state, tier, sort, order, limit }: CustomersQuery,
  after: string | null,
  nowMs: number,
): Promise<CustomerPage> {
  const [, afterFigure = null, afterId = null] = customersCursor.exec(after ?? '') ?? []
  const { figure } = SORTS[sort]
  if (figure !== undefined && afterId !== null && afterFigure === null) {
    throw new ApiError('invalid_value', { message: 'The cursor is of a list with another `sort`.', param: 'cursor' })
  }
  const { rows } = await sql.query<ListedRow>(pageSql(sort, order), [
    new Date(nowMs),
    // One more shows whether there is a next page.
    limit + 1,
    afterId,
    state ?? null,
    tier ?? null,
    search === undefined || search.trim() === '' ? null : likePattern(search.trim().toLowerCase()),
    ...(figure === undefined ? [] : [afterFigure]),
  ])
  const { page, next_cursor } = pageOf(rows, limit, ({ sortedBy, customerId }) =>
    figure === undefined ? customerId : `${sortedBy}|${customerId}`,
  )
  return {
    // The figure by which they are sorted, so that a charge of the last minute does not break the order.
    data: page.map(row => showCustomer(figure === undefined ? row : { ...row, [figure]: row.sortedBy })),
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

type ListedRow = CustomerRow & { readonly sortedBy: bigint }

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

const LAST_30_DAYS = `day > ($1::timestamptz AT TIME ZONE 'UTC')::date - 30`
const SELECT_CUSTOMER = `SELECT c.customer_id AS "customerId", c.email, c.account_tier AS "accountTier", c.created_at AS "createdAt", ${STATE} AS state`

/** The figures of these customers, each along the index of its table. */
const figuresOf = (customers: string) => `
SELECT c.*, coalesce(b.posted_nanos - l.settled, 0) AS "balanceNanos", coalesce(b.leased_nanos - l.settled, 0) AS "heldNanos",
  u.cost AS "spentNanos", u.requests, u.last_day AS "lastDay", m.people, k.keys
FROM (${customers}) AS c
LEFT JOIN balance b ON b.customer_id = c."customerId"
CROSS JOIN LATERAL (
  SELECT coalesce(sum(settled_nanos), 0)::bigint AS settled FROM lease WHERE lease.customer_id = c."customerId" AND slots IS NOT NULL
) AS l
CROSS JOIN LATERAL (
  SELECT coalesce(sum(cost_nanos), 0)::bigint AS cost, coalesce(sum(requests), 0)::bigint AS requests, to_char(max(day), 'YYYY-MM-DD') AS last_day
  FROM usage_day WHERE usage_day.customer_id = c."customerId" AND ${LAST_30_DAYS}
) AS u
CROSS JOIN LATERAL (SELECT count(*) AS people FROM membership WHERE membership.customer_id = c."customerId") AS m
CROSS JOIN LATERAL (SELECT count(*) AS keys FROM api_key WHERE api_key.customer_id = c."customerId" AND revoked_at IS NULL) AS k`

interface Sort {
  /** The expression by which the customers `c` are sorted. */
  readonly by: string
  /** What it needs besides customers. The sums over all customers have a row for each customer and day. */
  readonly join?: string
  /** The field that it shows. Undefined for what does not change: a cursor then needs no more than the id. */
  readonly figure?: 'balanceNanos' | 'spentNanos' | 'requests'
}

const SUMS_JOIN = `LEFT JOIN (
    SELECT customer_id, sum(cost_nanos)::bigint AS cost, sum(requests)::bigint AS requests FROM platform_customer_day
    WHERE ${LAST_30_DAYS} GROUP BY customer_id
  ) AS s USING (customer_id)`

const SORTS: Readonly<Record<CustomerSort, Sort>> = {
  created: { by: 'c.created_at' },
  email: { by: 'lower(c.email)' },
  balance: {
    by: 'coalesce(b.posted_nanos - coalesce(l.settled, 0), 0)',
    join: `LEFT JOIN balance b USING (customer_id) LEFT JOIN (
    SELECT customer_id, sum(settled_nanos)::bigint AS settled FROM lease WHERE slots IS NOT NULL GROUP BY customer_id
  ) AS l USING (customer_id)`,
    figure: 'balanceNanos',
  },
  spent: { by: 'coalesce(s.cost, 0)', join: SUMS_JOIN, figure: 'spentNanos' },
  requests: { by: 'coalesce(s.requests, 0)', join: SUMS_JOIN, figure: 'requests' },
}

// Customers are few enough to look for a part of an address in all of them, or to sort all by a figure: 10,000 take 10 ms. An id
// is found by its beginning: without its first %, the pattern $6 is that.
function pageSql(sort: CustomerSort, order: 'asc' | 'desc'): string {
  const { by, join = '', figure } = SORTS[sort]
  const next = order === 'asc' ? '>' : '<'
  const last =
    figure === undefined
      ? `(SELECT ${by}, c.customer_id FROM customer c WHERE c.customer_id = $3)`
      : '($7::bigint, $3::uuid)'
  return `${figuresOf(`
  ${SELECT_CUSTOMER}, ${by} AS "sortedBy"
  FROM customer c ${join}
  WHERE ($3::uuid IS NULL OR (${by}, c.customer_id) ${next} ${last})
    AND CASE WHEN $4::text IS NULL THEN deleted_at IS NULL ELSE $4 = ${STATE} END
    -- The accounts that audits are paid from.
    AND NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = c.customer_id)
    AND ($5::text IS NULL OR account_tier = $5)
    AND ($6::text IS NULL OR lower(email) LIKE $6 OR c.customer_id::text LIKE substr($6, 2)
      OR c.customer_id IN (SELECT s.customer_id FROM membership s JOIN person p USING (person_id) WHERE lower(p.email) LIKE $6 OR lower(p.name) LIKE $6))
  ORDER BY ${by} ${order}, c.customer_id ${order}
  LIMIT $2`)}
ORDER BY c."sortedBy" ${order}, c."customerId" ${order}`
}

const FIND = figuresOf(`${SELECT_CUSTOMER} FROM customer c WHERE customer_id = $2`)
