import { expect, test } from 'vitest'
import { type Caller, plainAccess } from '../../../base/domain/caller.ts'
import { createWindowView, noRequests } from './rate-windows.ts'

const caller: Caller = {
  customerId: '00000000-0000-7000-8000-000000000001',
  keyId: '00000000-0000-7000-8000-000000000002',
  email: 'ada@example.com',
  accountTier: 'free',
  sharesRequests: false,
  prices: null,
  access: plainAccess,
  limits: { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n },
}
const nowMs = Date.UTC(2026, 10, 21, 9, 30, 15)
const clock = { epochMs: () => nowMs, monotonicMs: () => 0 }
const never = () => Promise.reject(new Error('not expected to be read'))
const counts = { minuteUsed: 3, dayUsed: 40, minuteEndsAtEpochMs: nowMs + 45_000, dayEndsAtEpochMs: nowMs + 52_185_000 }

test('an unknown customer is read once', async () => {
  const reads = [async () => counts]
  const view = createWindowView({ hasPeers: () => false, clock, read: () => reads.shift()!() })
  expect([await view.current(caller, true), await view.current(caller, true)]).toEqual([counts, counts])
})

test('a failed read still gives headers, and is tried again', async () => {
  const reads = [() => Promise.reject(new Error('the database is away')), async () => counts]
  const view = createWindowView({ hasPeers: () => false, clock, read: () => reads.shift()!() })
  expect(await view.current(caller, true)).toEqual({ ...counts, minuteUsed: 0, dayUsed: 0 })
  expect(await view.current(caller, true)).toEqual(counts)
})

test('a window that has ended counts 0, and the current one has its own end', () => {
  let atMs = nowMs
  const view = createWindowView({ hasPeers: () => false, clock: { ...clock, epochMs: () => atMs }, read: never })
  view.remember(caller.customerId, counts)
  const at = (ms: number) => {
    atMs = ms
    return view.current(caller, true)
  }
  expect(at(counts.minuteEndsAtEpochMs - 1)).toEqual(counts)
  const nextMinute = { ...counts, minuteUsed: 0, minuteEndsAtEpochMs: counts.minuteEndsAtEpochMs + 60_000 }
  expect(at(counts.minuteEndsAtEpochMs)).toEqual(nextMinute)
  expect(at(counts.minuteEndsAtEpochMs + 59_999)).toEqual(nextMinute)
  expect(at(counts.dayEndsAtEpochMs - 1)).toEqual({
    ...counts,
    minuteUsed: 0,
    minuteEndsAtEpochMs: counts.dayEndsAtEpochMs,
  })
  expect(at(counts.dayEndsAtEpochMs)).toEqual({
    minuteUsed: 0,
    dayUsed: 0,
    minuteEndsAtEpochMs: counts.dayEndsAtEpochMs + 60_000,
    dayEndsAtEpochMs: counts.dayEndsAtEpochMs + 86_400_000,
  })
})

test('the windows of a customer without requests end with the minute and the day', () => {
  expect(noRequests(nowMs)).toEqual({ ...counts, minuteUsed: 0, dayUsed: 0 })
})

test('with other nodes, requests that are not counted here read the counts again, once a second', async () => {
  let atMs = 0
  let used = 0
  const view = createWindowView({
    clock: { ...clock, monotonicMs: () => atMs },
    read: async () => ({ ...counts, minuteUsed: ++used }),
    hasPeers: () => true,
  })
  view.remember(caller.customerId, counts)
  expect(view.current(caller, true)).toEqual(counts)
  for (const [elapsedMs, minuteUsed] of [
    [0, 1],
    [999, 1],
    [1_000, 2],
    [1_999, 2],
    [2_000, 3],
  ] as const) {
    atMs = elapsedMs
    expect([elapsedMs, await view.current(caller, false)]).toEqual([elapsedMs, { ...counts, minuteUsed }])
  }
})

test('when the counts cannot be read again, the last ones are used', async () => {
  const view = createWindowView({ hasPeers: () => true, clock, read: never })
  view.remember(caller.customerId, counts)
  expect(await view.current(caller, false)).toEqual(counts)
})

test('memory is bounded: the customer remembered first is read again', async () => {
  const view = createWindowView({ hasPeers: () => false, clock, read: async () => ({ ...counts, minuteUsed: 9 }) })
  for (let n = 0; n <= 10_000; n++) view.remember(`customer-${n}`, counts)
  expect(await view.current({ ...caller, customerId: 'customer-1' }, true)).toEqual(counts)
  expect(await view.current({ ...caller, customerId: 'customer-0' }, true)).toMatchObject({ minuteUsed: 9 })
})
