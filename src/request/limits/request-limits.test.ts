import { expect, test } from 'vitest'
import { type Caller, plainAccess } from '../../base/domain/caller.ts'
import {
  createEarlyDisconnects,
  createInvalidRequests,
  createWindowView,
  noRequests,
  rateLimitHeaders,
} from './request-limits.ts'

const caller: Caller = {
  customerId: '00000000-0000-7000-8000-000000000001',
  keyId: '00000000-0000-7000-8000-000000000002',
  email: 'ada@example.com',
  accountTier: 'free',
  sharesRequests: false,
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

test('headers have what is left, never below 0, and the seconds until the windows end', () => {
  const headers = (used: typeof counts, atMs: number) => rateLimitHeaders(caller.limits, used, atMs).join(' ')
  expect(headers(counts, nowMs + 1)).toBe(
    'x-ratelimit-limit-requests 20 x-ratelimit-remaining-requests 17 x-ratelimit-reset-requests 45s ' +
      'x-ratelimit-limit-requests-day 1000 x-ratelimit-remaining-requests-day 960 x-ratelimit-reset-requests-day 52185s',
  )
  // Limits may have been lowered, and the answer may be late.
  const over = headers({ ...counts, minuteUsed: 21, dayUsed: 1_001 }, counts.dayEndsAtEpochMs + 1)
  expect(over.match(/remaining-requests(-day)? 0\b/g)).toHaveLength(2)
  expect(over.match(/reset-requests(-day)? 0s/g)).toHaveLength(2)
})

const customer = '00000000-0000-7000-8000-000000000001'
let atMs = Date.UTC(2026, 10, 21, 9, 30)
const counting = () =>
  createEarlyDisconnects({
    freePerDay: 3,
    freeSpendBps: 200n,
    clock: { epochMs: () => atMs, monotonicMs: () => 0 },
  })

test('a few disconnects a day are free at any cost', () => {
  const disconnects = counting()
  const charged = () => disconnects.noteDisconnect(customer, 1_000_000_000n)
  expect([charged(), charged(), charged(), charged(), charged()]).toEqual([false, false, false, true, true])
  expect(disconnects.noteDisconnect('another', 1n)).toBe(false)
})

test('further disconnects are free while all forgiven ones are worth at most 2% of the charges of that day', () => {
  const disconnects = counting()
  disconnects.noteCharge(customer, 500_000n)
  const charged = (nanos: bigint) => disconnects.noteDisconnect(customer, nanos)
  expect([charged(2_000n), charged(2_000n), charged(2_000n)]).toEqual([false, false, false])
  expect(charged(4_000n)).toBe(false)
  expect(charged(1n)).toBe(true)
  disconnects.noteCharge(customer, 50n)
  expect(charged(1n)).toBe(false)
  expect(charged(1n)).toBe(true)
})

test('the counts reset exactly at the start of each UTC day', () => {
  const disconnects = counting()
  atMs = Date.UTC(2026, 10, 21)
  disconnects.noteCharge(customer, 1_000_000n)
  for (let n = 0; n < 4; n++) disconnects.noteDisconnect(customer, 1n)
  const charged = (nanos: bigint) => disconnects.noteDisconnect(customer, nanos)
  atMs = Date.UTC(2026, 10, 21, 23, 59, 59, 999)
  expect([charged(20_000n), charged(1n)]).toEqual([true, false])
  atMs += 1
  expect([charged(1n), charged(1n), charged(1n), charged(1n)]).toEqual([false, false, false, true])
})

test('memory is bounded: the customer seen first is dropped, and only at the limit', () => {
  const disconnects = counting()
  const last = () => disconnects.noteDisconnect(customer, 1n)
  for (let n = 0; n < 3; n++) last()
  for (let n = 1; n < 100_000; n++) disconnects.noteDisconnect(`another-${n}`, 1n)
  expect(last()).toBe(true)
  disconnects.noteDisconnect('one more', 1n)
  expect(last()).toBe(false)
})

const callerOf = (keyId: string): Caller => ({
  customerId: 'ada',
  keyId,
  email: 'ada@example.com',
  accountTier: 'free',
  sharesRequests: false,
  access: plainAccess,
  limits: { requestsPerMinute: 3, requestsPerDay: 1_000, dailySpendCapNanos: 0n },
})

test('a key with too many invalid requests is refused until the minute ends, other keys are not', () => {
  let atMs = Date.UTC(2026, 10, 21, 9, 30, 15)
  const invalid = createInvalidRequests({ clock: { epochMs: () => atMs, monotonicMs: () => 0 } })
  const [first, second] = [callerOf('first'), callerOf('second')]
  for (let n = 0; n < 3; n++) {
    invalid.refuseExcess(first)
    invalid.note(first)
  }
  expect(() => invalid.refuseExcess(first)).toThrow('This API key has sent 3 invalid requests this minute.')
  invalid.refuseExcess(second)

  atMs = Date.UTC(2026, 10, 21, 9, 30, 59, 999)
  expect(() => invalid.refuseExcess(first)).toThrow(expect.objectContaining({ retryAfterS: 1 }))
  atMs += 1
  invalid.refuseExcess(first)
  invalid.note(first)
  invalid.refuseExcess(first)
})
