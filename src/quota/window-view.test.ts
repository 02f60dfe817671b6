import { expect, test } from 'vitest'
import { type Caller, plainAccess } from '../domain/caller.ts'
import { createWindowView } from './window-view.ts'

const caller: Caller = {
  customerId: '00000000-0000-7000-8000-000000000001',
  keyId: '00000000-0000-7000-8000-000000000002',
  email: 'ada@example.com',
  accountTier: 'free',
  access: plainAccess,
  limits: { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n },
}
const nowMs = Date.UTC(2026, 10, 21, 9, 30, 15)
const clock = { epochMs: () => nowMs, monotonicMs: () => 0 }
const counts = { minuteUsed: 3, dayUsed: 40, minuteEndsAtEpochMs: nowMs + 45_000, dayEndsAtEpochMs: nowMs + 52_185_000 }

test('a customer not seen yet is read once', async () => {
  const reads = [async () => counts]
  const view = createWindowView({ clock, read: () => reads.shift()!() })
  expect([await view.current(caller), await view.current(caller)]).toEqual([counts, counts])
})

test('a read that fails leaves the answer its headers, and is tried again', async () => {
  const reads = [() => Promise.reject(new Error('the database is away')), async () => counts]
  const view = createWindowView({ clock, read: () => reads.shift()!() })
  expect(await view.current(caller)).toEqual({ ...counts, minuteUsed: 0, dayUsed: 0 })
  expect(await view.current(caller)).toEqual(counts)
})
