import { randomUUIDv7 } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migrate } from '../../src/base/db/migrate.ts'
import { listHosters } from '../../src/market/supply/hosters/hosters.ts'
import { archiveMonth } from '../../src/money/ledger/archive/archive-month.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { addUsagePartitions } from '../../src/money/ledger/settlement/add-usage-partitions.ts'
import { recoveredSettlements } from '../../src/money/ledger/settlement/recovered-settlements.ts'
import { encodeSettlement } from '../../src/money/ledger/settlement/settlement.ts'
import { readEarnings } from '../../src/money/payouts/earnings.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { JANUARY_MS, uuidAt } from '../ledger/archive-world.ts'
import { admissionOf, HOSTER_ID, settlementOf } from '../ledger/ledger-world.ts'
import { useFormerSchema } from '../upgrade/former-migrations.ts'

const database = useTestDatabase()
const query = (text: string, values: unknown[] = []) => database.pool.query(text, values)
/** The newest migration of the version before prices by kind of token. */
const NEWEST_BEFORE = '0008'
const CREDIT = 1_000_000n

test('a database and a journal of the version before keep every cent, and go on with cached tokens', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-upgrade-'))
  try {
    await useFormerSchema(database.pool, NEWEST_BEFORE)
    const customerId = await addCustomer()
    await addHoster()
    await addUsagePartitions(database.pool, JANUARY_MS)
    await addUsagePartitions(database.pool, Date.now())
    await settleBefore(customerId, JANUARY_MS, 101n)
    const charged = await settleBefore(customerId, Date.now(), 202n)
    await query("SELECT refund_request($1, $2, 2, 'a test')", [customerId, charged])
    const inJournal = recordBefore(customerId, Date.now(), 303n)
    // Archived before the upgrade: sums stand for its rows.
    await archiveBefore(directory)

    expect((await migrate(database.connection))[0]).toBe('0009_token_prices.sql')
    expect((await listHosters(database.pool))[0]!.models[0]!.price).toEqual({
      inputPicoPerToken: 5n,
      outputPicoPerToken: 6n,
    })

    const [recovered] = recoveredSettlements([{ payload: Buffer.from(inJournal), forget: () => {} }])
    await admit(recovered!.settlement.requestId, customerId)
    await settle(recovered!.record)
    const cached = settlementAt(customerId, Date.now(), 400n, {
      parts: [{ kind: 'cache_read', tokens: 40, picoPerToken: 1_000n }],
    })
    await admit(cached.requestId, customerId)
    await settle(encodeSettlement(cached))
    // Months of the old and of the new tables leave the database in the same way.
    await addUsagePartitions(database.pool, Date.now())

    const { rows } = await query(
      'SELECT sum(cost_nanos)::bigint AS cost, sum(cached_tokens)::bigint AS cached FROM usage_day',
    )
    expect(rows).toEqual([{ cost: 101n + 202n + 303n + 400n, cached: 40n }])
    const { rows: balances } = await query('SELECT posted_nanos, leased_nanos FROM balance')
    expect(balances).toEqual([{ posted_nanos: CREDIT - 1_004n, leased_nanos: 0n }])
    // Before the upgrade no hoster had sums of its own.
    expect(await readEarnings(database.pool, HOSTER_ID, { from: null, to: null })).toMatchObject([
      { day: '2026-01-15', requests: 1n, grossNanos: 101n, shareNanos: 80n, refundedNanos: 0n },
      { requests: 3n, grossNanos: 202n + 303n + 400n, refundedNanos: 2n, refundedShareNanos: 1n },
    ])
    expect((await audit(database.pool)).filter(({ violations }) => violations > 0)).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})

async function addCustomer(): Promise<string> {
  const customerId = randomUUIDv7()
  await query('INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)', [
    customerId,
    'a@b',
    'free',
  ])
  await query('SELECT open_account($1, $2)', [customerId, CREDIT])
  return customerId
}

async function addHoster(): Promise<void> {
  await query("INSERT INTO hoster (hoster_id, name, state, share_bps) VALUES ($1, 'acme', 'active', 8000)", [HOSTER_ID])
  const endpointId = randomUUIDv7()
  await query(
    "INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES ($1, $2, 'https://acme.example')",
    [endpointId, HOSTER_ID],
  )
  await query(
    `INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token,
       context_tokens, max_output_tokens) VALUES ($1, 'm', 1, 'm', 5, 6, 100, 100)`,
    [endpointId],
  )
}

function settlementAt(customerId: string, atMs: number, chargeNanos: bigint, more = {}) {
  const admission = admissionOf(customerId, 1_000n, { requestId: uuidAt(atMs) })
  return settlementOf(admission, 1_000n, chargeNanos, { startedAtEpochMs: atMs, ...more })
}

/** A record as the version before wrote it: without the last seven fields. */
function recordBefore(customerId: string, atMs: number, chargeNanos: bigint): string {
  const record = encodeSettlement(settlementAt(customerId, atMs, chargeNanos))
  expect(record).toMatch(/^\(8,.*,,,,,,,,,,\)$/s)
  return `(5${record.slice(2, -11)})`
}

async function settleBefore(customerId: string, atMs: number, chargeNanos: bigint): Promise<string> {
  const record = recordBefore(customerId, atMs, chargeNanos)
  const requestId = record.split(',')[1]!
  await admit(requestId, customerId)
  await settle(record)
  return requestId
}

/** Holds money for the request, as an admission does. */
async function admit(requestId: string, customerId: string): Promise<void> {
  await query(
    `INSERT INTO lease (lease_id, customer_id, node_id, granted_nanos, cap_day) VALUES ($1, $2, gen_random_uuid(), 1000, current_date)`,
    [requestId, customerId],
  )
  await query(
    `UPDATE balance SET leased_nanos = leased_nanos + 1000, day = current_date, day_leased_nanos = day_leased_nanos + 1000`,
  )
}

async function settle(record: string): Promise<void> {
  expect((await query('SELECT * FROM settle_batch(1::smallint, $1, false)', [record])).rows).toEqual([])
}

async function archiveBefore(directory: string): Promise<void> {
  await archiveMonth(database.pool, '2026-01', directory)
}
