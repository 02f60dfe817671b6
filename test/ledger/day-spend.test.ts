import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

// The balance row has the spend of one day. A charge of another day counts for its own day all the same.

const DAY_MS = 86_400_000
const NOON = Date.UTC(2026, 10, 21, 12)
const SHARD = 1

const world = useLedgerWorld()

test.each(['handed back', 'reclaimed'])(
  'charges of a bulk lease count for the day of its grant when it is %s on a later day',
  async end => {
    const { customerId, nodeId, store, clock } = await customerWith(10_000n)
    const leaseId = randomUUIDv7()
    const limits = { ...unlimited, dailySpendCapNanos: 4_000n }
    await store.admit(nodeId, [{ leaseId, customerId, limits, wantNanos: 500n, floorNanos: 500n, slots: 20 }])
    await store.settle(
      SHARD,
      encodeSettlements([settlementOf(admissionOf(customerId, 100n), 100n, 70n, { leaseId, startedAtEpochMs: NOON })]),
    )
    clock.nowMs += DAY_MS
    const other = await world.addNode()
    await store.admit(other.nodeId, [admissionOf(customerId, 10n, { limits })])
    expect(await daySpend(customerId)).toEqual([{ day: '2026-11-21', spent: 0n, cap: 4_000n }])
    if (end === 'reclaimed') await store.reclaim({ nodeShard: SHARD, deadNodes: [nodeId] })
    else await store.handBack([{ leaseId, keepNanos: null, slotsUsed: 1 }])
    expect(await daySpend(customerId)).toEqual([{ day: '2026-11-21', spent: 70n, cap: 4_000n }])
    expect(await world.violations()).toEqual([])
  },
)

test('a late charge keeps within the cap of its own day, whatever the cap is now', async () => {
  const { customerId, nodeId, store, clock } = await customerWith(10_000n)
  const admit = (cap: bigint) =>
    store.admit(nodeId, [admissionOf(customerId, 10n, { limits: { ...unlimited, dailySpendCapNanos: cap } })])
  await admit(300n)
  clock.nowMs += DAY_MS
  await admit(50n)
  // Its lease is gone. The first admission still holds 10 of that day.
  const late = (charge: bigint, startedAtEpochMs: number) =>
    store.settle(
      SHARD,
      encodeSettlements([settlementOf(admissionOf(customerId, charge), charge, charge, { startedAtEpochMs })]),
    )
  expect([...(await late(200n, NOON)).values()]).toEqual(['late'])
  expect([...(await late(91n, NOON)).values()]).toEqual(['written_off'])
  expect([...(await late(90n, NOON)).values()]).toEqual(['late'])
  expect([...(await late(41n, NOON + DAY_MS)).values()]).toEqual(['written_off'])
  expect(await daySpend(customerId)).toEqual([{ day: '2026-11-21', spent: 290n, cap: 300n }])
  expect(await world.violations()).toEqual([])
})

test('a late charge keeps within the highest cap that its day had', async () => {
  const { customerId, nodeId, store } = await customerWith(10_000n)
  for (const dailySpendCapNanos of [300n, 50n])
    await store.admit(nodeId, [admissionOf(customerId, 10n, { limits: { ...unlimited, dailySpendCapNanos } })])
  // Both admissions still hold 10.
  expect(await settleLate(store, customerId, NOON, [281n])).toEqual(['written_off'])
  expect(await settleLate(store, customerId, NOON, [280n])).toEqual(['late'])
  expect(await world.violations()).toEqual([])
})

test.each([
  ['today', 0],
  ['an earlier day', DAY_MS],
])('late charges of %s in one batch share the rest of the cap', async (_, laterMs) => {
  const { customerId, nodeId, store, clock } = await customerWith(10_000n)
  const limits = { ...unlimited, dailySpendCapNanos: 300n }
  for (const stepMs of [0, laterMs]) {
    clock.nowMs += stepMs
    await store.admit(nodeId, [admissionOf(customerId, null, { limits })])
  }
  expect(await settleLate(store, customerId, NOON, [200n, 101n, 100n])).toEqual(['late', 'written_off', 'late'])
  expect(await world.violations()).toEqual([])
})

test('a late charge of an earlier day does not take what ends in the same batch', async () => {
  const { customerId, nodeId, store, clock } = await customerWith(10_000n)
  const limits = { ...unlimited, dailySpendCapNanos: 300n }
  const held = admissionOf(customerId, 50n, { limits })
  await store.admit(nodeId, [held])
  clock.nowMs += DAY_MS
  await store.admit(nodeId, [admissionOf(customerId, 10n, { limits })])
  const ending = settlementOf(held, 50n, 50n, { startedAtEpochMs: NOON })
  expect(await settleLate(store, customerId, NOON, [251n, 250n], [ending])).toEqual(['written_off', 'late'])
  expect(await daySpend(customerId)).toEqual([{ day: '2026-11-21', spent: 300n, cap: 300n }])
  expect(await world.violations()).toEqual([])
})

test('a refusal counts the charges of open bulk leases in the spend of the day', async () => {
  const { customerId, nodeId, store } = await customerWith(10_000n)
  const leaseId = randomUUIDv7()
  const limits = { ...unlimited, dailySpendCapNanos: 1_000n }
  const [verdict] = await store.admit(nodeId, [
    { leaseId, customerId, limits, wantNanos: 400n, floorNanos: 400n, slots: 20 },
  ])
  const held = verdict?.kind === 'granted' ? verdict.heldNanos : 0n
  expect(held).toBeGreaterThan(0n)
  const admit = (holdNanos: bigint) => store.admit(nodeId, [admissionOf(customerId, holdNanos, { limits })])
  const left = 1_000n - held
  expect(await admit(left + 1n)).toMatchObject([{ code: 'in_flight_budget' }])
  const charge = settlementOf(admissionOf(customerId, held), held, held, { leaseId, startedAtEpochMs: NOON })
  await store.settle(SHARD, encodeSettlements([charge]))
  expect(await admit(left + 1n)).toMatchObject([{ code: 'daily_spend_cap_reached', capLeftNanos: left }])
  expect(await admit(left)).toMatchObject([{ kind: 'granted' }])
  expect(await world.violations()).toEqual([])
})

test('a day that was charged before its first admission starts with that spend and keeps the cap known then', async () => {
  const { customerId, nodeId, store, clock } = await customerWith(10_000n)
  const limits = { ...unlimited, dailySpendCapNanos: 300n }
  await store.admit(nodeId, [admissionOf(customerId, 10n, { limits })])
  const startedAtEpochMs = NOON + DAY_MS
  const charge = settlementOf(admissionOf(customerId, 200n), 200n, 200n, { startedAtEpochMs })
  expect([...(await store.settle(SHARD, encodeSettlements([charge]))).values()]).toEqual(['late'])
  expect(await daySpend(customerId)).toEqual([{ day: '2026-11-22', spent: 200n, cap: 300n }])
  clock.nowMs += DAY_MS
  // The cap was lowered. Charges under the higher cap are no violation.
  const lower = { ...unlimited, dailySpendCapNanos: 150n }
  expect(await store.admit(nodeId, [admissionOf(customerId, 10n, { limits: lower })])).toMatchObject([
    { code: 'daily_spend_cap_reached', capLeftNanos: 0n },
  ])
  expect(await store.admit(nodeId, [admissionOf(customerId, 101n, { limits })])).toMatchObject([
    { code: 'daily_spend_cap_reached', capLeftNanos: 100n },
  ])
  expect(await daySpend(customerId)).toEqual([{ day: '2026-11-21', spent: 0n, cap: 300n }])
  expect(await world.violations()).toEqual([])
})

test('handing back a lease waits for a running admission, which may begin the next day', async () => {
  // Without its limit: this test decides how long the admission runs.
  await world.pool.query("ALTER FUNCTION hand_back_leases SET lock_timeout = '0'")
  const { customerId, nodeId, store, clock } = await customerWith(10_000n)
  const leaseId = randomUUIDv7()
  await store.admit(nodeId, [{ leaseId, customerId, limits: unlimited, wantNanos: 500n, floorNanos: 500n, slots: 20 }])
  await store.settle(
    SHARD,
    encodeSettlements([settlementOf(admissionOf(customerId, 100n), 100n, 70n, { leaseId, startedAtEpochMs: NOON })]),
  )
  clock.nowMs += DAY_MS
  let returned: Promise<unknown>
  await transaction(world.pool, async sql => {
    const admitting = createPostgresStore({ money: sql, heartbeat: world.pool, windowClock: () => clock.nowMs })
    expect(await admitting.admit(nodeId, [admissionOf(customerId, 10n)])).toMatchObject([{ kind: 'granted' }])
    returned = store.handBack([{ leaseId, keepNanos: null, slotsUsed: 1 }])
    await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(1)
  })
  expect(await returned!).toEqual(new Set())
  expect(await daySpend(customerId)).toMatchObject([{ day: '2026-11-21', spent: 70n }])
  expect(await world.violations()).toEqual([])
})

/** Settles these charges, which have no lease, after `before` in the same batch. Returns the effect of each charge. */
async function settleLate(
  store: LedgerStore,
  customerId: string,
  startedAtEpochMs: number,
  charges: readonly bigint[],
  before: readonly Settlement[] = [],
) {
  const late = charges.map(charge =>
    settlementOf(admissionOf(customerId, charge), charge, charge, { startedAtEpochMs }),
  )
  const effects = await store.settle(SHARD, encodeSettlements([...before, ...late]))
  return late.map(({ requestId }) => effects.get(requestId))
}

async function customerWith(creditNanos: bigint) {
  const clock = { nowMs: NOON }
  const store = createPostgresStore({ money: world.pool, heartbeat: world.pool, windowClock: () => clock.nowMs })
  const { nodeId } = await world.addNode()
  return { customerId: await world.addCustomer(creditNanos), nodeId, store, clock }
}

async function daySpend(customerId: string) {
  const { rows } = await world.pool.query(
    'SELECT day::text, spent_nanos AS spent, cap_nanos AS cap FROM day_spend WHERE customer_id = $1 ORDER BY day',
    [customerId],
  )
  return rows
}
