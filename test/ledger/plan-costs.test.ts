import { randomUUIDv7 } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import type { BulkRequest, LeaseRequest, LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { runOnServer } from '../harness/database.ts'
import { storeOf } from '../harness/store-of.ts'
import { uuidAt } from './archive-world.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'
import { addLimitedMember } from './limited-member.ts'

// The functions that move money, with every statement in them, as PostgreSQL plans them over tables of a realistic size. They run with
// enable_seqscan off: see sql/functions/money/locks.sql. A plan above the threshold was compiled for 400 ms each time it ran.

/** The default of jit_above_cost. */
const COST_MAX = 100_000
const SHARD = 1
/** The node of the leases of other customers. It is alive, so that they are not reclaimed. */
const NODE = '00000000-0000-7000-8000-0000000000ff'
const TODAY_MS = Date.UTC(2026, 10, 21, 10, 30)
const DAY_MS = 86_400_000
const ARCHIVED_MS = Date.UTC(2020, 0, 15)

const world = useLedgerWorld()

beforeAll(async () => {
  const [first, store] = [admissionOf(await world.addCustomer(1_000n), 100n), storeOf(world.pool)]
  await store.settle(SHARD, encodeSettlements([settlementOf(first, 100n, 50n)]))
  await store.registerNode(NODE)
  const filling = createPool(world.connection, { max: 1, applicationName: 'fill', statementTimeoutMs: 0 })
  for (const statement of [...FILL, 'ANALYZE']) await filling.query(statement)
  await filling.end()
  const { database } = world.connection
  for (const [name, value] of Object.entries({
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': 0,
    'auto_explain.log_nested_statements': 'on',
    'auto_explain.log_timing': 'off',
    // To the client, instead of the log of the server.
    'auto_explain.log_level': 'notice',
    track_functions: 'all',
  }))
    await runOnServer(`ALTER DATABASE ${database} SET ${name} = '${value}'`)
})

/** Other customers than those of the test, each with a balance, sums of some days and open leases of a node that is not theirs. */
const FILL = [
  `INSERT INTO usage_event SELECT (jsonb_populate_record(u, jsonb_build_object('request_id', gen_random_uuid()))).*
    FROM usage_event u, generate_series(1, 10000)`,
  `INSERT INTO customer (customer_id, email, account_tier) SELECT gen_random_uuid(), n || '@example.net', 'free' FROM generate_series(1, 2000) n`,
  `INSERT INTO balance (customer_id, posted_nanos, leased_nanos) SELECT customer_id, 1000000, 1000 FROM customer ON CONFLICT DO NOTHING`,
  `INSERT INTO day_spend (customer_id, day, spent_nanos) SELECT customer_id, date '2026-06-01' + d, 1 FROM balance, generate_series(1, 10) d`,
  `INSERT INTO key_spend (customer_id, key_id, window_start) SELECT customer_id, gen_random_uuid(), date '2026-06-01' + d FROM balance, generate_series(1, 10) d`,
  `INSERT INTO member_spend (customer_id, person_id, window_start) SELECT customer_id, gen_random_uuid(), date '2026-06-01' + d FROM balance, generate_series(1, 10) d`,
  `INSERT INTO usage_label_day SELECT customer_id, 'label', date '2026-06-01' + d, 0, 1, 1 FROM balance, generate_series(1, 10) d`,
  `INSERT INTO lease (lease_id, customer_id, node_id, granted_nanos, cap_day, slots, slot_minute)
    SELECT gen_random_uuid(), customer_id, '${NODE}', 1000, '2026-11-21', CASE WHEN n = 1 THEN 60 END, CASE WHEN n = 1 THEN timestamptz '2026-11-21 10:29Z' END
    FROM balance, generate_series(1, 4) n`,
  `INSERT INTO usage_archive (month, from_id, to_id)
    SELECT date '2018-01-01' + make_interval(months => m), ('00000000-0000-0000-0000-' || lpad(m::text, 12, '0'))::uuid, ('00000000-0000-0000-0000-' || lpad((m + 1)::text, 12, '0'))::uuid
    FROM generate_series(0, 59) m`,
]

test('no statement of a function that moves money has a plan that PostgreSQL compiles', async () => {
  await world.pool.query('INSERT INTO usage_archive (month, from_id, to_id) VALUES ($1, $2, $3)', [
    ...['2024-01-01', uuidAt(ARCHIVED_MS), uuidAt(ARCHIVED_MS + 31 * DAY_MS)],
  ])
  const plans: string[] = []
  const pool = createPool(world.connection, { max: 2, applicationName: 'plans', statementTimeoutMs: 60_000 })
  pool.pg.on('connect', client => client.on('notice', ({ message = '' }) => plans.push(message)))
  let nowMs = TODAY_MS
  const windowClock = () => nowMs
  await moveMoney(pool, createPostgresStore({ money: pool, heartbeat: pool, windowClock }), byMs => {
    nowMs += byMs
  })
  await pool.end()

  expect(plans.filter(isExpensive)).toEqual([])
  expect(plans.length).toBeGreaterThan(500)
  // A function that never ran has no plans. PostgreSQL counts the calls of a session when it ends.
  await expect.poll(notCalled).toEqual([])
})

/** `Disabled` marks what enable_seqscan forbids, but nothing else can do. PostgreSQL 18 does not add it to the cost. */
function isExpensive(plan: string): boolean {
  return Number(/\(cost=[\d.]+\.\.([\d.]+)/.exec(plan)?.[1]) > COST_MAX || /Disabled: true/.test(plan)
}

/** The functions that run with enable_seqscan off, and those that they call or trigger, without the ones that have been called. */
async function notCalled(): Promise<string[]> {
  const { rows } = await world.pool.query<{ name: string; source: string; is_root: boolean; is_called: boolean }>(
    FUNCTIONS,
  )
  const { rows: triggers } = await world.pool.query<{ name: string; table: string }>(TRIGGERS)
  const used = new Set(rows.filter(({ is_root }) => is_root))
  // A function that is added is visited by the same loop.
  for (const { source } of used) {
    const words = new Set(source.match(/\w+/g))
    const triggered = triggers.filter(
      ({ table }) => source.includes(`INSERT INTO ${table} `) || source.includes(`UPDATE ${table} `),
    )
    for (const found of rows)
      if (words.has(found.name) || triggered.some(({ name }) => name === found.name)) used.add(found)
  }
  return [...used].filter(({ is_called }) => !is_called).map(({ name }) => name)
}

const FUNCTIONS = `
SELECT p.proname AS name, p.prosrc AS source, coalesce('enable_seqscan=off' = ANY (p.proconfig), false) AS is_root,
  EXISTS (SELECT FROM pg_stat_user_functions s WHERE s.funcid = p.oid) AS is_called
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace = 'public'::regnamespace AND l.lanname = 'plpgsql'`

/** Without refuse_rewrite, which only raises an error. */
const TRIGGERS = `
SELECT tgfoid::regproc::text AS name, tgrelid::regclass::text AS table
FROM pg_trigger WHERE NOT tgisinternal AND tgfoid <> 'refuse_rewrite'::regproc`

/** Takes every way through the functions, once with each kind of lock. */
async function moveMoney(pool: Pool, store: LedgerStore, passTime: (byMs: number) => void): Promise<void> {
  const [node, other] = [randomUUIDv7(), randomUUIDv7()]
  for (const nodeId of [node, other]) await store.registerNode(nodeId)
  for (const skipsLocked of [false, true]) {
    const admit = (nodeId: string, ...requests: LeaseRequest[]) => store.admit(nodeId, requests, skipsLocked)
    const settle = (...settlements: Settlement[]) => store.settle(SHARD, encodeSettlements(settlements), skipsLocked)
    const customerId = await world.addCustomer(1_000_000n)
    const limited = await limitsOf(customerId)

    const [strict, bulk, open] = [admissionOf(customerId, 100n, limited), bulkOf(customerId), bulkOf(customerId)]
    await admit(node, strict, bulk, open, admissionOf(customerId, null))
    await admit(node, strict)
    await store.noteUse([{ leaseId: bulk.leaseId, slotsUsed: 1, owedNanos: 10n }])
    await settle(settlementOf(strict, 100n, 50n, { label: 'project' }), ofBulkLease(bulk), ofBulkLease(open))
    await store.handBack([{ leaseId: bulk.leaseId, keepNanos: null, slotsUsed: 2 }], skipsLocked)
    await store.handBack([{ leaseId: open.leaseId, keepNanos: 10n, slotsUsed: 2 }], skipsLocked)
    await settle(ofBulkLease(bulk))
    await pool.query("SELECT count_key_window($1, $2, 'monthly', now())", [customerId, limited.keyId])

    const never = admissionOf(customerId, 100n, limited)
    await admit(node, never)
    await store.release([never.requestId])

    // More than the leases of the other node leave.
    const poor = await world.addCustomer(10_000n)
    await admit(other, bulkOf(poor))
    await admit(node, admissionOf(poor, 9_500n))

    // Charges without a lease: of an unknown request, of an archived one, and of one whose node was declared dead.
    const superseded = { outcome: 'superseded', provider: 'none', hosterId: null, success: false } as const
    const [sentAgain, late] = [admissionOf(customerId, 100n), admissionOf(customerId, 100n, limited)]
    const dead = randomUUIDv7()
    await store.registerNode(dead)
    await admit(dead, sentAgain, late)
    await settle(settlementOf({ ...sentAgain, requestId: randomUUIDv7() }, 0n, 0n, superseded))
    await settle(settlementOf(sentAgain, 0n, 0n, superseded))
    await store.reclaim({ nodeShard: SHARD, deadNodes: [dead] })
    await settle(
      settlementOf(late, 100n, 60n),
      settlementOf(sentAgain, 100n, 60n),
      settlementOf(admissionOf(customerId, 100n), 100n, 60n, { startedAtEpochMs: TODAY_MS - 3 * DAY_MS }),
      settlementOf(admissionOf(customerId, 100n, { requestId: uuidAt(ARCHIVED_MS + DAY_MS) }), 100n, 60n),
    )

    // A day ends, and comes again by a clock that is set back.
    passTime(-3 * DAY_MS)
    await admit(node, admissionOf(customerId, 100n))
    passTime(3 * DAY_MS)
    await admit(node, admissionOf(customerId, 100n))

    // A refund pays a debt first.
    const indebted = await world.addCustomer(100n)
    const paid = admissionOf(indebted, 100n)
    await admit(node, paid)
    await settle(settlementOf(paid, 100n, 100n))
    await world.pool.query('UPDATE balance SET debt_nanos = 10 WHERE customer_id = $1', [indebted])
    await refundRequest(pool, { ...paid, amountNanos: null, reason: 'sorry' })
  }
}

/** A key and a member with spend limits. */
async function limitsOf(customerId: string): Promise<Pick<Admission, 'keyId' | 'keyLimit' | 'memberLimit'>> {
  const limit = { limitNanos: 1_000_000n, reset: 'monthly' } as const
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit })
  return { keyId, keyLimit: limit, memberLimit: await addLimitedMember(world.pool, customerId, limit) }
}

function bulkOf(customerId: string): BulkRequest {
  const holds = { wantNanos: 1_000n, floorNanos: 100n, slots: 10 }
  return { leaseId: randomUUIDv7(), customerId, limits: unlimited, ...holds }
}

function ofBulkLease({ customerId, leaseId }: BulkRequest): Settlement {
  return settlementOf(admissionOf(customerId, 100n), 100n, 30n, { leaseId })
}
