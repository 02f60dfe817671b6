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

test('a few leaves a day are free at any cost', () => {
  const leaves = counting()
  const charged = () => leaves.noteLeave(customer, 1_000_000_000n)
  expect([charged(), charged(), charged(), charged(), charged()]).toEqual([false, false, false, true, true])
  expect(leaves.noteLeave('another', 1n)).toBe(false)
})

test('further leaves are free while all forgiven ones are worth at most 2 % of the charges of that day', () => {
  const leaves = counting()
  leaves.noteCharge(customer, 500_000n)
  const charged = (nanos: bigint) => leaves.noteLeave(customer, nanos)
  expect([charged(2_000n), charged(2_000n), charged(2_000n)]).toEqual([false, false, false])
  expect(charged(4_000n)).toBe(false)
  expect(charged(1n)).toBe(true)
  leaves.noteCharge(customer, 50n)
  expect(charged(1n)).toBe(false)
  expect(charged(1n)).toBe(true)
})

test('the counts reset exactly at the start of each UTC day', () => {
  const leaves = counting()
  nowMs = Date.UTC(2026, 10, 21)
  leaves.noteCharge(customer, 1_000_000n)
  for (let leave = 0; leave < 4; leave++) leaves.noteLeave(customer, 1n)
  const charged = (nanos: bigint) => leaves.noteLeave(customer, nanos)
  nowMs = Date.UTC(2026, 10, 21, 23, 59, 59, 999)
  expect([charged(20_000n), charged(1n)]).toEqual([true, false])
  nowMs += 1
  expect([charged(1n), charged(1n), charged(1n), charged(1n)]).toEqual([false, false, false, true])
})

test('memory is bounded: the customer seen first is dropped, and only at the limit', () => {
  const leaves = counting()
  const last = () => leaves.noteLeave(customer, 1n)
  for (let leave = 0; leave < 3; leave++) last()
  for (let n = 1; n < 100_000; n++) leaves.noteLeave(`another-${n}`, 1n)
  expect(last()).toBe(true)
  leaves.noteLeave('one more', 1n)
  expect(last()).toBe(false)
})
