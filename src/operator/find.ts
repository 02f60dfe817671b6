import type { Sql } from '../base/db/pool.ts'
import type { Offer } from '../base/domain/offer.ts'
import { UUID } from '../base/runtime/uuid.ts'
import type { Found } from '../wire/api/operator/find.ts'

/** Of each kind. */
const FOUND_MAX = 5
/** How far the start of a request may be from the time in its id. */
const START_OFF_MS = 600_000

/** Finds customers, keys, hosters, models, providers and requests by a part of their name, or by their id. */
export async function find(sql: Sql, text: string, offers: readonly Offer[]): Promise<Found> {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`
  const id = UUID.test(text) ? text.toLowerCase() : null
  const values = [pattern, id, FOUND_MAX]
  const [customers, keys, hosters, providers, requests] = await Promise.all([
    sql.query<Found['customers'][number]>(CUSTOMERS, values),
    sql.query<Found['keys'][number]>(KEYS, [...values, text]),
    sql.query<Found['hosters'][number]>(HOSTERS, values),
    sql.query<{ name: string }>(PROVIDERS, [pattern, FOUND_MAX]),
    id === null ? { rows: [] } : sql.query<Found['requests'][number]>(REQUESTS, [id, ...spanOf(id)]),
  ])
  const models = new Set(offers.map(({ modelId }) => modelId))
  return {
    customers: customers.rows,
    keys: keys.rows,
    hosters: hosters.rows,
    models: [...models].filter(model => model.toLowerCase().includes(text.toLowerCase())).slice(0, FOUND_MAX),
    providers: providers.rows.map(({ name }) => name),
    requests: requests.rows,
  }
}

/** The id of a request begins with its time. The index of all requests is by customer first, and that of times is small. */
function spanOf(id: string): readonly [Date, Date] {
  const startedMs = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
  return [new Date(startedMs - START_OFF_MS), new Date(startedMs + START_OFF_MS)]
}

const CUSTOMERS = `
SELECT customer_id AS id, email, CASE WHEN disabled_at IS NULL THEN 'active' ELSE 'paused' END AS state FROM customer
WHERE deleted_at IS NULL AND (email ILIKE $1 OR customer_id = $2) ORDER BY created_at DESC, customer_id LIMIT $3`

const KEYS = `
SELECT key_id AS id, name, hint, customer_id, email AS customer_email,
       CASE WHEN api_key.expires_at <= now() THEN 'expired' WHEN paused_at IS NULL THEN 'active' ELSE 'paused' END AS state
FROM api_key JOIN customer USING (customer_id)
WHERE revoked_at IS NULL AND NOT is_playground AND (name ILIKE $1 OR hint = $4 OR key_id = $2)
ORDER BY api_key.created_at DESC, key_id LIMIT $3`

const HOSTERS = `SELECT hoster_id AS id, name FROM hoster WHERE name ILIKE $1 OR hoster_id = $2 ORDER BY name LIMIT $3`

const PROVIDERS = `SELECT name FROM provider WHERE name ILIKE $1 ORDER BY name LIMIT $2`

const REQUESTS = `
SELECT request_id AS id, customer_id FROM usage_event WHERE request_id = $1 AND started_at BETWEEN $2 AND $3 LIMIT 1`
