import { randomBytes, randomUUID } from 'node:crypto'
import type { Attempt, Outcome } from '../../src/base/domain/handoff.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { activateHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { addHoster } from '../../src/market/supply/hosters/add-hoster.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import type { TestDatabase } from '../harness/database.ts'

/** Usage rows of one customer at one endpoint, one a second. */
export interface Rows {
  readonly customerId: string
  readonly hosterId: string | null
  readonly endpointId: string
  readonly count: number
  readonly outcome?: Outcome
  /** Reported tokens for each counted one. Default: 1. */
  readonly ratio?: number
  readonly costNanos?: number
  /** Default: the server answered at once. */
  readonly attempts?: readonly Attempt[]
  /** Of a hoster. Default: 1. */
  readonly priceVersion?: number
  /** Default: an hour before `NOW_MS`. */
  readonly startedMs?: number
}

/** 2026-11-25 12:00 UTC. */
export const NOW_MS = 1_795_608_000_000

export async function insertUsage(database: TestDatabase, rows: Rows): Promise<void> {
  const { customerId, hosterId, endpointId, count, outcome = 'served', ratio = 1, costNanos = 500_000 } = rows
  const started = rows.startedMs ?? NOW_MS - 3_600_000
  await database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, endpoint_id, hoster_id, input_tokens, output_tokens,
       usage_source, input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success,
       outcome, attempts, price_version, counted_input_tokens, reported_input_tokens, counted_output_tokens, reported_output_tokens)
     SELECT $1, gen_random_uuid(), to_timestamp($2::float8 / 1000 + i), 'm', $3, $4, $5, 10, 10, 'upstream', 0, 0, $6, $6, 0, $6, 100,
       $7 = 'served', $7, $8::json, $11, 400 + i, ((400 + i) * $9::float8)::int, 300 + i, ((300 + i) * $9::float8)::int
     FROM generate_series(1, $10::int) i`,
    [
      customerId,
      started,
      hosterId === null ? 'local' : 'hoster',
      endpointId,
      hosterId,
      outcome === 'served' ? costNanos : 0,
      outcome,
      JSON.stringify(rows.attempts ?? 100),
      ratio,
      count,
      hosterId === null ? null : (rows.priceVersion ?? 1),
    ],
  )
}

export async function createHoster(database: TestDatabase): Promise<{ hosterId: string; endpointId: string }> {
  const name = `hoster-${randomBytes(4).toString('hex')}`
  const price = { inputPicoPerToken: 1n, outputPicoPerToken: 1n }
  const models = [{ modelId: 'm', price, contextTokens: 8_192, maxOutputTokens: 1_024, features: [] }]
  const created = await addHoster(
    database.pool,
    { name, baseUrl: 'https://models.example.com/v1', models, trustScore: 0, shareBps: 8_000 },
    { masterKeys: fixedKey(randomBytes(32)), allowPrivateUrls: false },
  )
  await activateHoster(database.pool, name)
  return created
}

/** Customers that have paid 100 USD and spent all of it. */
export async function createCustomers(database: TestDatabase, count: number): Promise<string[]> {
  const customers = Array.from({ length: count }, () =>
    addCustomer(database.pool, { email: `${randomUUID()}@example.com`, accountTier: 'standard' }),
  )
  const ids = (await Promise.all(customers)).map(customer => customer!.customerId)
  await database.pool.query(
    `SELECT open_account(id, 0), grant_credit(id, 100000000000, id::text, 'paid') FROM unnest($1::uuid[]) AS id`,
    [ids],
  )
  await database.pool.query('UPDATE balance SET posted_nanos = 0 WHERE customer_id = ANY ($1)', [ids])
  return ids
}
