import { describe, expect, test } from 'vitest'
import type { Hold } from '../../../base/domain/handoff.ts'
import type { BulkRequest } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'
import { LeaseBook } from './lease-book.ts'

const customerId = 'customer'
const limits = { requestsPerMinute: 1e6, requestsPerDay: 1e6, dailySpendCapNanos: 10n ** 15n }
const holdNanos = 1_000n

/** A book that has seen one request, unless `isEmpty`. */
function newBook({ isEmpty = false } = {}) {
  const clock = { nowMs: 0 }
  let ids = 0
  const book = new LeaseBook({
    monotonicMs: () => clock.nowMs,
    mayAdmit: () => true,
    newId: () => `lease-${++ids}`,
    onLow: () => {},
  })
  if (!isEmpty) {
    book.admit(admission(-1))
  }
  return { book, clock }
}

function admission(n: number): Admission {
  const ask = { wantNanos: holdNanos, floorNanos: holdNanos }
  return {
    requestId: `request-${n}`,
    customerId,
    keyId: 'key',
    modelId: 'model',
    limits,
    keyLimit: null,
    memberLimit: null,
    ask,
  }
}

function grant(book: LeaseBook, request: BulkRequest, heldNanos = request.wantNanos, nodes = 1): void {
  const { slots, leaseId } = request
  const ends = { minuteEndsAtEpochMs: 60_000, dayEndsAtEpochMs: 86_400_000 }
  const windows = { minuteUsed: 0, dayUsed: 0, minuteCounted: slots, dayCounted: slots, ownLeases: [leaseId], ...ends }
  const free = { freeNanos: 10n ** 12n, capLeftNanos: 10n ** 12n, nodes }
  book.granted(request, { item: 0, kind: 'granted', heldNanos, slots, ...free, windows, databaseNowMs: 0 }, 0)
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
  test('requests a lease for the second request of a customer', () => {
    const { book } = newBook({ isEmpty: true })
    expect(book.admit(admission(0))).toBeUndefined()
    expect(book.wanted(customerId, limits)).toBeUndefined()
    expect(book.admit(admission(1))).toBeUndefined()
    expect(book.wanted(customerId, limits)).toMatchObject({ customerId, floorNanos: 1_000_000_000n, slots: 62 })
  })

  test('forgets a customer two minutes after its last request', () => {
    const { book, clock } = newBook({ isEmpty: true })
    book.admit(admission(0))
    clock.nowMs = 120_000
    expect([book.collect(), book.size]).toEqual([[], 1])
    clock.nowMs++
    expect([book.collect(), book.size]).toEqual([[], 0])
  })

  test('requests a lease without a balance for requests that cost nothing', () => {
    const { book } = newBook({ isEmpty: true })
    const free = { ...admission(0), ask: { wantNanos: 0n, floorNanos: 0n } }
    book.admit(free)
    book.admit(free)
    expect(book.wanted(customerId, limits)).toMatchObject({ wantNanos: 0n, floorNanos: 0n })
  })

  test('asks at once for a larger lease when a sudden load has used one up', () => {
    const { book } = newBook()
    book.admit(admission(0))
    const first = book.wanted(customerId, limits)!
    grant(book, first)
    expect(spend(book)).toBe(16)
    const second = book.wanted(customerId, limits)!
    expect(second.wantNanos).toBeGreaterThanOrEqual(first.wantNanos * 4n)
  })

  test.each([
    ['the only node', 1, undefined, 59_000],
    ['one of two nodes, for a small lease', 2, 100n, 59_000],
    ['one of two nodes, for a lease with an eighth of the free money', 2, 10n ** 12n, 3_000],
  ])('keeps an idle lease as %s', (_, nodes, heldNanos, keptMs) => {
    const { book, clock } = newBook()
    book.admit(admission(0))
    const request = book.wanted(customerId, limits)!
    grant(book, request, heldNanos, nodes)
    clock.nowMs = keptMs - 1
    expect(book.collect()).toEqual([])
    clock.nowMs = keptMs + 1_000
    expect(book.collect()).toEqual([{ leaseId: request.leaseId, keepNanos: null, slotsUsed: 0 }])
  })

  test('keeps the charge of a request until it is settled', () => {
    const { book } = newBook()
    book.admit(admission(0))
    const request = book.wanted(customerId, limits)!
    grant(book, request)
    const result = book.reserve(admission(4))!
    const { leaseId } = request
    const lease = book.charge(holdOf(result), 400n)!
    expect([lease.leaseId, book.hasUncommitted(customerId)]).toEqual([leaseId, true])
    // What is charged and not settled stays.
    expect(book.collect(true)).toEqual([{ leaseId, keepNanos: 400n, slotsUsed: 1 }])
    lease.settle(400n)
    expect(book.hasUncommitted(customerId)).toBe(false)
    expect(book.collect(true)).toEqual([{ leaseId, keepNanos: null, slotsUsed: 1 }])
  })

  test('does not count what is left of a lease that it forgot', () => {
    const { book } = newBook()
    book.admit(admission(0))
    grant(book, book.wanted(customerId, limits)!)
    const result = book.reserve(admission(4))!
    book.forgetAll()
    expect(book.charge(holdOf(result), 400n)).toBeUndefined()
  })

  test('waits a second before it requests another lease when one has room for only a few requests', () => {
    const { book, clock } = newBook()
    book.admit(admission(0))
    grant(book, book.wanted(customerId, limits)!, holdNanos * 3n)
    expect(spend(book)).toBe(3)
    expect(book.wanted(customerId, limits)).toBeUndefined()
    clock.nowMs = 1_000
    expect(book.wanted(customerId, limits)).toBeDefined()
  })

  test('waits twice as long after each refused grant', () => {
    const { book, clock } = newBook()
    const askedAtMs: number[] = []
    for (; clock.nowMs < 200_000; clock.nowMs += 500) {
      book.admit(admission(0))
      const request = book.wanted(customerId, limits)
      if (request === undefined) continue
      askedAtMs.push(clock.nowMs)
      book.denied(request)
    }
    expect(askedAtMs).toEqual([0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000, 183_000])
  })
})
