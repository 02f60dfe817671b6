import { expect, test } from 'vitest'
import type { SettleEffect } from '../ledger-store.ts'
import { RecentSettlements } from './recent-settlements.ts'
import { RECORD_SEPARATOR } from './settlement-record.ts'

const idOf = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`
const customerId = '00000000-0000-7000-8000-cccccccccccc'
const recordOf = (n: number) => `(4,${idOf(n)},${customerId},"record ${n}")`
const batch = (...records: string[]) => Buffer.from(records.join(RECORD_SEPARATOR))

function createRecent() {
  const effects = new Map<string, SettleEffect>()
  let nowMs = 0
  const failure: { error: Error | null } = { error: null }
  const settle = async () => {
    if (failure.error !== null) throw failure.error
    return effects
  }
  const recent = new RecentSettlements({ settle }, () => nowMs)
  return {
    effects,
    failure,
    settle(atMs: number, ...numbers: number[]) {
      nowMs = atMs
      return recent.settle(1, batch(...numbers.map(recordOf)))
    },
    async kept() {
      const texts: string[] = []
      await recent.settleAgain(async records => {
        for (const { payload } of records) texts.push(String(payload))
      })
      return texts
    },
    recent,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

test('keeps the records of the last ten seconds in their order, and forgets those of more than twenty', async () => {
  const { settle, kept, recent } = createRecent()
  await settle(0, 1, 2)
  recent.found(recent.latest)
  await settle(9_000, 3)
  await settle(11_000, 4)
  recent.found(recent.latest)
  await settle(20_000, 5)
  recent.found(recent.latest)
  expect(await kept()).toEqual([1, 2, 3, 4, 5].map(recordOf))
  await settle(22_000, 6)
  expect(await kept()).toEqual([3, 4, 5, 6].map(recordOf))
})

test('forgets nothing while PostgreSQL is away, although the records were there just before', async () => {
  const { settle, kept, recent } = createRecent()
  await settle(0, 1)
  recent.found(recent.latest)
  await settle(9_900, 2)
  await settle(11_000, 3)
  recent.found(recent.latest)
  // A standby took over that lacks these, and no heartbeat has looked yet.
  await settle(22_000, 4)
  expect(await kept()).toEqual([1, 2, 3, 4].map(recordOf))
})

test('forgets nothing while nothing is committed: PostgreSQL may be away for long before it lacks transactions', async () => {
  const { settle, kept } = createRecent()
  await settle(0, 1)
  await settle(600_000, 2)
  expect(await kept()).toEqual([1, 2].map(recordOf))
})

test('forgets nothing while no look-up succeeds, for example while the node is paused or heartbeats fail', async () => {
  const { settle, kept, recent, pass } = createRecent()
  await settle(0, 1)
  for (const [atMs, n] of [
    [30_000, 2],
    [60_000, 3],
    [90_000, 4],
  ] as const)
    await settle(atMs, n)
  expect(await kept()).toEqual([1, 2, 3, 4].map(recordOf))
  recent.found(recent.latest)
  await settle(110_000, 5)
  pass(15_000)
  recent.found(recent.latest)
  await settle(130_000, 6)
  expect(await kept()).toEqual([5, 6].map(recordOf))
})

test('forgets everything after an hour without a settlement, because usage rows may be archived', async () => {
  const { settle, kept, recent, pass } = createRecent()
  await settle(0, 1)
  pass(3_600_000)
  expect(recent.latest).toHaveLength(1)
  pass(1)
  expect(recent.latest).toEqual([])
  expect(await kept()).toEqual([])
})

// The first settlement of a request counts. If the second one were kept, it could become the first.
test('does not keep settlements without an effect', async () => {
  const { settle, kept, effects } = createRecent()
  effects.set(idOf(2), 'duplicate').set(idOf(3), 'fenced').set(idOf(4), 'late').set(idOf(5), 'no_account')
  await settle(0, 1, 2, 3, 4, 5)
  expect(await kept()).toEqual([1, 4].map(recordOf))
})

test('keeps a duplicate if the first answer was lost: this node may have committed it', async () => {
  const { settle, kept, effects, failure } = createRecent()
  failure.error = new Error('connection lost')
  await expect(settle(0, 1, 2)).rejects.toThrow('connection lost')
  failure.error = null
  effects.set(idOf(1), 'duplicate').set(idOf(3), 'duplicate')
  await settle(1, 1, 3)
  await settle(2, 1)
  effects.clear()
  await settle(3, 2)
  expect(await kept()).toEqual([1, 2].map(recordOf))
})

test('names the last request of each batch that was not looked up yet, and of three before it', async () => {
  const { settle, kept, recent } = createRecent()
  expect(recent.latest).toEqual([])
  const named = (...numbers: number[]) => numbers.map(n => ({ customerId, requestId: idOf(n) }))
  await settle(0, 1, 2)
  await settle(1, 3)
  await settle(2, 4, 5)
  await settle(3, 6)
  const { latest } = recent
  expect(latest).toEqual(named(2, 3, 5, 6))
  await settle(4, 7)
  recent.found(latest)
  expect(recent.latest).toEqual(named(3, 5, 6, 7))
  await settle(5, 8)
  expect(recent.latest).toEqual(named(3, 5, 6, 7, 8))
  await kept()
  expect(recent.latest).toEqual([])
})

test('copies its records, and keeps at most 32 MiB', async () => {
  const { recent, kept } = createRecent()
  const record = Buffer.alloc(1 << 20, 'x')
  for (let n = 0; n < 100; n++) await recent.settle(1, record)
  record.fill('y')
  const texts = await kept()
  expect(texts.length).toBeGreaterThan(15)
  expect(texts.length).toBeLessThan(32)
  expect(texts.every(text => text.length === 1 << 20 && text.startsWith('x'))).toBe(true)
})
