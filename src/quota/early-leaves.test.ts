import { expect, test } from 'vitest'
import { createEarlyLeaves } from './early-leaves.ts'

const customer = '00000000-0000-7000-8000-000000000001'
let nowMs = Date.UTC(2026, 10, 21, 9, 30)
const counting = () =>
  createEarlyLeaves({
    freePerDay: 3,
    freeSpendBps: 200n,
    clock: { epochMs: () => nowMs, monotonicMs: () => 0 },
  })

test('a few leaves a day are free, whatever they cost', () => {
  const leaves = counting()
  const charged = () => leaves.isCharged(customer, 1_000_000_000n)
  expect([charged(), charged(), charged(), charged(), charged()]).toEqual([false, false, false, true, true])
  expect(leaves.isCharged('another', 1n)).toBe(false)
})

test('beyond them those are free that are worth at most 2 % of what was spent that day, all forgiven ones included', () => {
  const leaves = counting()
  leaves.noteCharge(customer, 500_000n)
  const charged = (nanos: bigint) => leaves.isCharged(customer, nanos)
  expect([charged(2_000n), charged(2_000n), charged(2_000n)]).toEqual([false, false, false])
  expect(charged(4_000n)).toBe(false)
  expect(charged(1n)).toBe(true)
  leaves.noteCharge(customer, 50n)
  expect(charged(1n)).toBe(false)
  expect(charged(1n)).toBe(true)
})

test('every UTC day begins anew', () => {
  const leaves = counting()
  leaves.noteCharge(customer, 1_000_000n)
  for (let leave = 0; leave < 4; leave++) leaves.isCharged(customer, 1n)
  nowMs += 86_400_000
  const charged = () => leaves.isCharged(customer, 1n)
  expect([charged(), charged(), charged(), charged()]).toEqual([false, false, false, true])
})
