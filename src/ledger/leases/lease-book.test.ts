import { describe, expect, test } from 'vitest'
import type { Hold } from '../../domain/handoff.ts'
import type { BulkRequest } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import { LeaseBook } from './lease-book.ts'

const customerId = 'customer'
const limits = { requestsPerMinute: 1e6, requestsPerDay: 1e6, dailySpendCapNanos: 10n ** 15n }
const holdNanos = 1_000n

function newBook() {
  const clock = { nowMs: 0 }
  let ids = 0
  const book = new LeaseBook({
    monotonicMs: () => clock.nowMs,
    mayAdmit: () => true,
    newId: () => `lease-${++ids}`,
  })
  return { book, clock }
}

function admission(n: number): Admission {
  const ask = { wantNanos: holdNanos, floorNanos: holdNanos }
  return { requestId: `request-${n}`, customerId, keyId: 'key', modelId: 'model', limits, keyLimit: null, ask }
}

function grant(book: LeaseBook, request: BulkRequest, heldNanos = request.wantNanos): void {
  const windows = { minuteUsed: 0, dayUsed: 0, minuteEndsAtEpochMs: 60_000, dayEndsAtEpochMs: 86_400_000 }
  const { slots } = request
  book.granted(request, { item: 0, kind: 'granted', heldNanos, slots, windows, databaseNowMs: 0 }, 0)
}

function holdOf(result: AdmissionResult): Hold {
  if (result.kind !== 'granted') throw new Error(`nothing is held: ${result.kind}`)
  return result.hold
}

/** Admits until the lease has no more room; returns how many. */
function spend(book: LeaseBook): number {
  let n = 0
  while (book.reserve(admission(n)) !== undefined) n++
  return n
}

describe('the lease book', () => {
  test('requests no lease until a customer has sent a few requests', () => {
    const { book } = newBook()
    for (let n = 0; n < 3; n++) book.observe(admission(n))
    expect(book.wanted(customerId, limits)).toBeUndefined()
    book.observe(admission(3))
    expect(book.wanted(customerId, limits)).toMatchObject({ customerId, floorNanos: 1_000_000_000n })
  })

  test('asks at once for a larger lease when a sudden load has used one up', () => {
    const { book } = newBook()
    for (let n = 0; n < 4; n++) book.observe(admission(n))
    const first = book.wanted(customerId, limits)!
    grant(book, first)
    expect(spend(book)).toBe(64)
    const second = book.wanted(customerId, limits)!
    expect(second.wantNanos).toBeGreaterThanOrEqual(first.wantNanos * 4n)
  })

  test('keeps the charge of a request until it is settled', () => {
    const { book } = newBook()
    for (let n = 0; n < 4; n++) book.observe(admission(n))
    const request = book.wanted(customerId, limits)!
    grant(book, request)
    const result = book.reserve(admission(4))!
    const { leaseId } = request
    expect(book.charge(holdOf(result), 400n)).toBe(true)
    // What is charged and not settled stays.
    expect(book.collect(true)).toEqual([{ leaseId, keepNanos: 400n, slotsUsed: 1 }])
    book.settled(leaseId, 400n)
    expect(book.collect(true)).toEqual([{ leaseId, keepNanos: null, slotsUsed: 1 }])
  })

  test('does not count what is left of a lease that it forgot', () => {
    const { book } = newBook()
    for (let n = 0; n < 4; n++) book.observe(admission(n))
    grant(book, book.wanted(customerId, limits)!)
    const result = book.reserve(admission(4))!
    book.forgetAll()
    expect(book.charge(holdOf(result), 400n)).toBe(false)
  })

  test('waits a second before it requests another lease when one has room for only a few requests', () => {
    const { book, clock } = newBook()
    for (let n = 0; n < 4; n++) book.observe(admission(n))
    grant(book, book.wanted(customerId, limits)!, holdNanos * 3n)
    expect(spend(book)).toBe(3)
    expect(book.wanted(customerId, limits)).toBeUndefined()
    clock.nowMs = 1_000
    for (let n = 0; n < 4; n++) book.observe(admission(n))
    expect(book.wanted(customerId, limits)).toBeDefined()
  })
})
