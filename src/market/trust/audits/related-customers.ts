import type { Sql } from '../../../base/db/pool.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'

/**
 * How long the related customers of a hoster are known. Relations arise from sign-ins and payments, not from requests.
 */
const KNOWN_MS = 300_000

/**
 * Returns the customers that are related to a hoster: docs/trust.md. The last answer of each hoster is kept for
 * minutes.
 */
export type RelatedCustomers = (hosterId: string) => Promise<ReadonlySet<string>>

export function createRelatedCustomers(sql: Sql, clock: Clock): RelatedCustomers {
  const known = new Map<string, { readonly customers: Promise<ReadonlySet<string>>; readonly untilMs: number }>()
  return hosterId => {
    const nowMs = clock.monotonicMs()
    const last = known.get(hosterId)
    if (last !== undefined && nowMs < last.untilMs) return last.customers
    const customers = read(sql, hosterId)
    known.set(hosterId, { customers, untilMs: nowMs + KNOWN_MS })
    // A failure is not kept.
    customers.catch(() => known.delete(hosterId))
    return customers
  }
}

async function read(sql: Sql, hosterId: string): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ customer_id: string }>('SELECT DISTINCT customer_id FROM related_customers($1)', [
    hosterId,
  ])
  return new Set(rows.map(({ customer_id }) => customer_id))
}
