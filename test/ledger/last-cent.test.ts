import { beforeEach, describe, expect, test } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { createMemoryDisk } from '../journal/memory-disk.ts'
import {
  admissionOf,
  settle,
  settlementOf,
  type TestNode,
  unlimited,
  useLedgerWorld,
  useNodes,
} from './ledger-world.ts'

const world = useLedgerWorld()
const nodes = useNodes(world, 3)

const HOLD = 1_000_000n
const nodeOf = (i: number) => nodes[i % nodes.length]!

test('of 200 concurrent requests on a balance for exactly 50, 50 are granted and the balance ends at zero', async () => {
  const customerId = await world.addCustomer(50n * HOLD)
  const admissions = Array.from({ length: 200 }, () => admissionOf(customerId, HOLD))
  const results = await Promise.all(admissions.map(admission => nodes[0]!.ledger.admit(admission)))
  const granted = admissions.filter((_, i) => results[i]!.kind === 'granted')
  expect(granted).toHaveLength(50)
  for (const result of results) {
    if (result.kind === 'granted') expect(result.hold.nanos).toBe(HOLD)
    else
      expect(result).toMatchObject({
        kind: 'refused',
        code: 'in_flight_budget',
        postedNanos: 50n * HOLD,
        freeNanos: 0n,
      })
  }
  await Promise.all(granted.map(admission => settle(nodes[0]!.ledger, settlementOf(admission, HOLD, HOLD))))
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 0n, leasedNanos: 0n })
  expect(await nodes[0]!.ledger.admit(admissionOf(customerId, HOLD))).toMatchObject({ code: 'insufficient_credits' })
  expect(await world.violations()).toEqual([])
})

test('of 500 concurrent requests for the last cent from three processes, one gets it', async () => {
  const customerId = await world.addCustomer(10_000_000n)
  const results = await Promise.all(
    Array.from({ length: 500 }, (_, i) => nodeOf(i).ledger.admit(admissionOf(customerId, 10_000_000n))),
  )
  expect(results.filter(result => result.kind === 'granted')).toHaveLength(1)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 10_000_000n, freeNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('a flexible hold takes what is left, down to its floor', async () => {
  const customerId = await world.addCustomer(25n)
  const ask = { wantNanos: 10n, floorNanos: 5n }
  const held = []
  for (let i = 0; i < 4; i++) {
    const result = await nodeOf(i).ledger.admit(admissionOf(customerId, 0n, { ask }))
    held.push(result.kind === 'granted' ? result.hold.nanos : result.kind === 'refused' && result.code)
  }
  expect(held).toEqual([10n, 10n, 5n, 'in_flight_budget'])
})

describe('the hold of an ended answer with a charge that is in the journal and not committed yet', () => {
  const HELD = 800n
  const CHARGED = 10n
  // Both requests are of one minute, however long they take.
  const windowClock = () => Date.UTC(2026, 10, 21, 10, 30, 12)
  let node: TestNode
  let customerId: string

  beforeEach(async () => {
    const { journal } = openJournal({ disk: createMemoryDisk(), scheduler: systemScheduler, fsync: false })
    node = await world.addNode({ journal, windowClock })
    customerId = await world.addCustomer(1_000n)
    const admission = admissionOf(customerId, HELD)
    expect(await node.ledger.admit(admission)).toMatchObject({ kind: 'granted' })
    await settle(node.ledger, settlementOf(admission, HELD, CHARGED))
    expect(node.ledger.pending.settlements).toBe(1)
  })

  test('does not shorten the next answer', async () => {
    const ask = { wantNanos: 900n, floorNanos: 100n }
    const result = await node.ledger.admit(admissionOf(customerId, 0n, { ask }))
    expect(result).toMatchObject({ kind: 'granted', hold: { nanos: 900n }, windows: { minuteUsed: 2, dayUsed: 2 } })
  })

  test('leaves the next request everything that is left when that is less than it wants', async () => {
    const ask = { wantNanos: 2_000n, floorNanos: 100n }
    const result = await node.ledger.admit(admissionOf(customerId, 0n, { ask }))
    expect(result).toMatchObject({ kind: 'granted', hold: { nanos: 990n }, windows: { minuteUsed: 2, dayUsed: 2 } })
  })

  test('does not make another node refuse the next request', async () => {
    // The other node waits as long as a commit usually takes. On a busy machine, this one may take longer.
    const afterCommit = async (run: () => void) => {
      await node.ledger.drain(60_000)
      run()
    }
    const scheduler = {
      ...systemScheduler,
      after: (ms: number, run: () => void) => systemScheduler.after(ms, () => void afterCommit(run)),
    }
    const other = await world.addNode({ windowClock, scheduler })
    const result = await other.ledger.admit(admissionOf(customerId, 990n))
    expect(result).toMatchObject({ kind: 'granted', windows: { minuteUsed: 2, dayUsed: 2 } })
  })
})

test('the minute window is exact across three processes', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { ...unlimited, requestsPerMinute: 20 }
  const now = () => Date.UTC(2026, 10, 21, 10, 30, 12)
  const fixed = await Promise.all([0, 1, 2].map(() => world.addNode({ windowClock: now })))
  const results = await Promise.all(
    Array.from({ length: 90 }, (_, i) => fixed[i % 3]!.ledger.admit(admissionOf(customerId, null, { limits }))),
  )
  expect(results.filter(result => result.kind === 'counted')).toHaveLength(20)
  for (const result of results) {
    if (result.kind === 'counted') continue
    expect(result).toMatchObject({
      code: 'rate_limit_exceeded',
      windows: {
        minuteUsed: 20,
        dayUsed: 20,
        minuteEndsAtEpochMs: Date.UTC(2026, 10, 21, 10, 31),
        dayEndsAtEpochMs: Date.UTC(2026, 10, 22),
      },
    })
  }
})

test('the day window is exact across three processes, and a request it refuses does not count', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { ...unlimited, requestsPerDay: 30 }
  const results = await Promise.all(
    Array.from({ length: 90 }, (_, i) => nodeOf(i).ledger.admit(admissionOf(customerId, 1n, { limits }))),
  )
  expect(results.filter(result => result.kind === 'granted')).toHaveLength(30)
  expect(results.filter(result => result.kind === 'refused' && result.code === 'daily_limit_exceeded')).toHaveLength(60)
  expect(Math.max(...results.map(result => result.windows.dayUsed))).toBe(30)
})

test('a request that is refused for money and sent again in the next minute counts once in its day', async () => {
  let nowMs = Date.UTC(2026, 10, 21, 10, 30, 59)
  const customerId = await world.addCustomer(10n)
  const limits = { ...unlimited, requestsPerDay: 1 }
  const store = createPostgresStore({ money: world.pool, heartbeat: world.pool, windowClock: () => nowMs })
  const admission = admissionOf(customerId, 11n, { limits })
  const [refused] = await store.admit(nodes[0]!.nodeId, [admission])
  expect(refused).toMatchObject({ code: 'insufficient_credits', windows: { minuteUsed: 1, dayUsed: 1 } })
  nowMs += 1_000
  const again = {
    ...admission,
    countedUntilEpochMs: Date.UTC(2026, 10, 21, 10, 31),
    ask: { wantNanos: 10n, floorNanos: 10n },
  }
  expect(await store.admit(nodes[0]!.nodeId, [again])).toMatchObject([
    { kind: 'granted', windows: { minuteUsed: 1, dayUsed: 1 } },
  ])
  // The first minute of a day belongs to that day.
  nowMs = Date.UTC(2026, 10, 22)
  const next = { ...admissionOf(customerId, null, { limits }), countedUntilEpochMs: nowMs }
  expect(await store.admit(nodes[0]!.nodeId, [next])).toMatchObject([{ windows: { minuteUsed: 1, dayUsed: 1 } }])
})

test('the daily spend cap is exact across three processes, counts holds, and gets back what was not spent', async () => {
  const customerId = await world.addCustomer(1_000n)
  const limits = { ...unlimited, dailySpendCapNanos: 100n }
  const ask = () => admissionOf(customerId, 10n, { limits })
  const admissions = Array.from({ length: 60 }, ask)
  const results = await Promise.all(admissions.map((admission, i) => nodeOf(i).ledger.admit(admission)))
  const granted = admissions.filter((_, i) => results[i]!.kind === 'granted')
  expect(granted).toHaveLength(10)
  expect(results.find(result => result.kind === 'refused')).toMatchObject({
    code: 'in_flight_budget',
    capLeftNanos: 0n,
    freeNanos: 900n,
  })
  await Promise.all(granted.map((admission, i) => settle(nodeOf(i).ledger, settlementOf(admission, 10n, 7n))))
  expect(await readBalance(world.pool, customerId)).toMatchObject({ daySpentNanos: 70n, dayLeasedNanos: 0n })
  const again = await Promise.all(Array.from({ length: 9 }, (_, i) => nodeOf(i).ledger.admit(ask())))
  expect(again.filter(result => result.kind === 'granted')).toHaveLength(3)
  expect(await world.violations()).toEqual([])
})

test('free requests are admitted with an empty balance and a used-up cap', async () => {
  const customerId = await world.addCustomer(0n)
  const limits = { ...unlimited, dailySpendCapNanos: 0n }
  const admission = admissionOf(customerId, 0n, { limits })
  expect(await nodes[0]!.ledger.admit(admission)).toMatchObject({ kind: 'granted', hold: { nanos: 0n } })
  await settle(nodes[0]!.ledger, settlementOf(admission, 0n, 0n))
  expect(await world.violations()).toEqual([])
})

test('a customer without an account gets a clear error, and the rest of the batch is admitted', async () => {
  const [without, withAccount] = [await world.addCustomer(), await world.addCustomer(100n)]
  const [refused, granted] = await Promise.allSettled([
    nodes[0]!.ledger.admit(admissionOf(without, 10n)),
    nodes[0]!.ledger.admit(admissionOf(withAccount, 10n)),
  ])
  expect(refused).toMatchObject({ status: 'rejected', reason: { message: expect.stringContaining('has no account') } })
  expect(granted).toMatchObject({ status: 'fulfilled', value: { kind: 'granted' } })
})
