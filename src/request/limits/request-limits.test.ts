import { expect, test } from 'vitest'
import { type Caller, plainAccess } from '../../base/domain/caller.ts'
import { createEarlyDisconnects, createInvalidRequests } from './request-limits.ts'

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
  prices: null,
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
