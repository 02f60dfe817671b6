import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { type Pool, transaction } from '../../src/base/db/pool.ts'
import { makeInviteLink, makeWelcomeLink } from '../../src/identity/people/links.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import { bigCustomerEmail, generateUsage } from '../generate-usage.ts'
import { printProgress } from '../print-progress.ts'

/** The password of the member and the operator that sign in. */
export const PASSWORD = 'correct horse battery staple'
export const DAYS = 395
/** The days of the last weeks on which every other customer made requests; before, one day a week. */
const BUSY_DAYS = 60
/** The most keys of one customer. */
const KEYS_OF_BIG = 1_000

export interface FillPlan {
  /** Requests of one customer. */
  readonly rows: number
  /** Other customers. Each has sums of its usage, and no requests. */
  readonly customers: number
  /** Keys of all customers together. */
  readonly keys: number
}

/** Fills a migrated database with what many customers leave behind. Returns the seconds that it took. */
export async function fillForConsole(pool: Pool, { rows, customers, keys }: FillPlan): Promise<number> {
  const startedMs = performance.now()
  await generateUsage(pool, { rows, nowEpochMs: Date.now(), days: DAYS, otherCustomers: 0 })
  const keysOfBig = Math.min(KEYS_OF_BIG, Math.ceil(keys / 10))
  await transaction(pool, async sql => {
    for (const [statement, values] of [
      [CUSTOMERS, [customers]],
      [PEOPLE, []],
      [KEYS, [bigCustomerEmail, keysOfBig, keys - keysOfBig]],
      [DAYS_OF_CUSTOMERS, [bigCustomerEmail, DAYS, BUSY_DAYS]],
      [DAYS_OF_SERVERS, [bigCustomerEmail]],
      [DAYS_OF_KEYS, [bigCustomerEmail, DAYS, BUSY_DAYS]],
      // The function that appends plans its query for the empty table.
      ['SET LOCAL enable_seqscan = off', []],
      [AUDIT_LOG, [customers * 5]],
      ['SET LOCAL enable_seqscan = on', []],
      [GRANTS, []],
      [ALERTS, [bigCustomerEmail]],
      [SERVERS, []],
    ] as const) {
      await sql.query(statement, values)
    }
  })
  await pool.query("SELECT sum_platform_days('-infinity'), sum_customer_days('-infinity')")
  await pool.query("VACUUM (ANALYZE, BUFFER_USAGE_LIMIT '64MB')")
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  printProgress(`${customers} other customers and ${keys} keys, ${seconds} s`)
  return seconds
}

/** Makes an owner of the customer with the requests, and an operator. Returns the tokens with which they enter. */
export async function makeEntrants(pool: Pool): Promise<{ customerId: string; invite: string; welcome: string }> {
  const { rows } = await pool.query<{ id: string }>('SELECT customer_id AS id FROM customer WHERE email = $1', [
    bigCustomerEmail,
  ])
  const customerId = rows[0]!.id
  const name = randomBytes(4).toString('hex')
  return transaction(pool, async sql => {
    const email = `owner-${name}@example.com`
    const invite = await makeInviteLink(sql, { customerId, email, role: 'owner' }, Date.now())
    const operator = await addPerson(sql, { email: `operator-${name}@example.com`, installationRole: 'operator' })
    const welcome = await makeWelcomeLink(sql, operator!.personId, Date.now())
    return { customerId, invite: invite.split('#')[1]!, welcome: welcome.split('#')[1]! }
  })
}

/** A key of the customer with the requests, written as the command line would. */
export async function addKey(pool: Pool, customerId: string, key: string): Promise<void> {
  await pool.query("INSERT INTO api_key (key_id, customer_id, name, key_hash, hint) VALUES ($1, $2, 'bench', $3, '')", [
    randomUUID(),
    customerId,
    createHash('sha256').update(key).digest(),
  ])
}

const CUSTOMERS = `
WITH added AS (
  INSERT INTO customer (customer_id, email, account_tier, created_at)
  SELECT gen_random_uuid(), 'customer-' || n || '@example.com', 'bench', now() - n * interval '50 minutes'
  FROM generate_series(1, $1::integer) n
  RETURNING customer_id
)
SELECT open_account(customer_id, 5000000000) FROM added`

const PEOPLE = `
WITH people AS (
  INSERT INTO person (person_id, email, name, created_at) SELECT customer_id, 'person-' || email, 'Ada', created_at FROM customer
  RETURNING person_id
), sessions AS (
  INSERT INTO person_session (session_id, token_hash, person_id, confirmed_at, last_seen_at, expires_at, user_agent, address, created_at)
  SELECT gen_random_uuid(), sha256(person_id::text::bytea), person_id, now(), now(), now() + interval '7 days', 'Generated', '203.0.113.9', now()
  FROM people
)
INSERT INTO membership (customer_id, person_id, role) SELECT person_id, person_id, 'owner' FROM people`

const KEYS = `
INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, created_at)
SELECT gen_random_uuid(), customer_id, 'key ' || n, sha256((customer_id || ' ' || n)::bytea), 'sk-sy-…' || n, now() - n * interval '1 minute'
FROM customer, generate_series(1, $2::integer) n WHERE email = $1
UNION ALL
SELECT gen_random_uuid(), customer_id, 'key', sha256(customer_id::text::bytea), 'sk-sy-…', created_at
FROM (SELECT * FROM customer WHERE email <> $1 ORDER BY created_at DESC LIMIT $3) AS other`

/** In the order in which the gateway writes them: day by day. */
const DAYS_OF_CUSTOMERS = `
INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes, input_tokens, output_tokens,
  cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
SELECT customer_id, current_date - d, m, p, 0, 100, 99, 50000, 20000, 1000000 + hashtext(customer_id::text) % 900000, 0,
  1000000 + hashtext(customer_id::text) % 900000, 100000
FROM generate_series($2::integer - 1, 0, -1) d, customer, (VALUES ('qwen3-32b', 'local'), ('gpt-oss-120b', 'cloud')) AS sold (m, p)
WHERE email <> $1 AND (d < $3 OR d % 7 = 0)
ORDER BY d DESC`

const DAYS_OF_SERVERS = `
INSERT INTO endpoint_day (day, endpoint_id, model_id, provider, node_shard, requests, cost_nanos, hoster_share_nanos, fee_nanos,
  upstream_cost_nanos, costed_nanos)
SELECT day, 'filled-' || provider, model_id, provider, 0, sum(requests), sum(cost_nanos), 0, sum(fee_nanos), 0, 0
FROM usage_day JOIN customer USING (customer_id) WHERE email <> $1 GROUP BY 1, 3, 4`

/** One key in twenty of the customer is used each day, the others once in five days. */
const DAYS_OF_KEYS = `
INSERT INTO usage_key_day (customer_id, key_id, day, node_shard, requests, cost_nanos)
SELECT customer_id, key_id, current_date - d, 0, 100, 1000000 + hashtext(key_id::text) % 900000
FROM generate_series($2::integer - 1, 0, -1) d, api_key JOIN customer USING (customer_id)
WHERE CASE WHEN email = $1 THEN hashtext(key_id::text) % 20 = 0 OR (hashtext(key_id::text) + d) % 5 = 0 ELSE d < $3 OR d % 7 = 0 END
ORDER BY d DESC, customer_id`

const AUDIT_LOG = `
SELECT count(add_audit_entry(person_id, 'person.signed_in', email, NULL, '{}', '203.0.113.9'))
FROM (SELECT * FROM person, generate_series(1, 100) LIMIT $1) AS entered`

const GRANTS = `
INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, is_promotion, state, requested_by, requested_at, decided_by, decided_at)
SELECT gen_random_uuid(), customer_id, 1000000000, 'generated grant ' || customer_id, 'a pilot', true, 'granted', customer_id, created_at, customer_id, created_at
FROM customer`

const ALERTS = `
WITH rule AS (
  INSERT INTO alert_rule (rule_id, customer_id, kind, channel, target)
  SELECT gen_random_uuid(), customer_id, 'daily_spend', 'email', email FROM customer
  RETURNING rule_id, target
), added AS (
  INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts, created_at, delivered_at)
  SELECT gen_random_uuid(), rule_id, 'daily_spend', (current_date - d)::text, '{"day":"2026-11-24","spent":"1","cap":"1"}',
    now() - d * interval '1 day', now() - d * interval '1 day'
  FROM rule, generate_series(1, 80) d WHERE target = $1 OR d < 5
  RETURNING alert_id, created_at
)
INSERT INTO alert_delivery (alert_id, attempt, outcome, at) SELECT alert_id, 1, 'delivered', created_at FROM added`

const SERVERS = `
WITH days AS (
  INSERT INTO server_day (day, endpoint_id, model_id, answered, failed)
  SELECT current_date - d, 'server-' || s, 'qwen3-32b', 10000, 3 FROM generate_series(0, 89) d, generate_series(1, 20) s
)
INSERT INTO server_incident (node_id, endpoint_id, model_id, kind, began_at, ended_at)
SELECT gen_random_uuid(), 'server-' || (n % 20 + 1), 'qwen3-32b', 'ejected', now() - n * interval '2 hours', now() - n * interval '2 hours' + interval '7 minutes'
FROM generate_series(1, 1000) n`
