import { beforeEach, describe, expect, test } from 'vitest'
import type { Health } from '../../../base/domain/health.ts'
import { createCustomerBreakers, splitCustomerOfferKey } from './customer-breakers.ts'
import { createHealth } from './health.ts'

let nowMs: number
let ejected: string[]
let ann: Health
let bob: Health
let cem: Health

beforeEach(() => {
  nowMs = 1_000_000
  ejected = []
  const newHealth = () =>
    createHealth({
      clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
      random: () => 0.5,
      onEvent: ({ event, offerId }) => ejected.push(`${event} ${offerId}`),
    })
  const customers = createCustomerBreakers(newHealth(), newHealth())
  ann = customers.of('ann')
  bob = customers.of('bob')
  cem = customers.of('cem')
})

const fail = (customer: Health, times = 1, outcome: Parameters<Health['recordFailure']>[1] = 'server_error') => {
  for (let n = 0; n < times; n++) customer.recordFailure('x', outcome)
}
const succeed = (customer: Health, times = 1) => {
  for (let n = 0; n < times; n++) customer.recordSuccess('x', { firstTokenMs: 10 })
}
const states = () => [ann, bob, cem].map(health => health.state('x'))

describe('faults of one customer alone', () => {
  test.each(['server_error', 'first_token_timeout', 'malformed', 'empty'] as const)(
    '%s ejects the offer for that customer after the usual count, and for no other',
    outcome => {
      fail(ann, 4, outcome)
      expect(states()).toEqual(['open', 'open', 'open'])
      fail(ann, 1, outcome)
      expect(states()).toEqual(['ejected', 'open', 'open'])
      expect([ann.ejectedForMs('x'), bob.ejectedForMs('x')]).toEqual([5_000, 0])
      expect(ejected).toEqual(['ejected ann x'])
    },
  )

  test('never eject the offer for other customers, not even during trials', () => {
    for (let n = 0; n < 200; n++) {
      ann.beginRequest('x')
      fail(ann)
      ann.endRequest('x')
      nowMs += n % 3 === 0 ? ann.ejectedForMs('x') : 100
    }
    expect(states()).toEqual(['ejected', 'open', 'open'])
    // Her faults still count: the server may be at fault after all.
    fail(bob)
    expect(states()).toEqual(['ejected', 'ejected', 'ejected'])
    expect(bob.ejectedForMs('x')).toBe(5_000)
  })

  test('do not count for other customers while those are served', () => {
    for (let n = 0; n < 60; n++) {
      fail(ann)
      if (n % 5 === 4) succeed(bob)
    }
    fail(cem, 4)
    expect(states().slice(1)).toEqual(['open', 'open'])
  })

  test('are forgiven after a trial by the same customer', () => {
    fail(ann, 5)
    nowMs += 5_000
    expect(states()).toEqual(['probing', 'open', 'open'])
    ann.beginRequest('x')
    expect(ann.state('x')).toBe('ejected')
    succeed(ann)
    ann.endRequest('x')
    succeed(ann, 2)
    expect(states()).toEqual(['open', 'open', 'open'])
  })
})

describe('an ejection for all customers', () => {
  test('needs five faults in a row by two customers', () => {
    fail(ann, 4)
    fail(bob)
    expect(states()).toEqual(['ejected', 'ejected', 'ejected'])
    expect(ejected).toEqual(['ejected x'])
  })

  test('needs only three failed connections of one customer, since the server has not seen the requests', () => {
    fail(ann, 3, 'connect_failed')
    expect(states()).toEqual(['ejected', 'ejected', 'ejected'])
  })

  test('needs two customers that meet a refused key, since a filter may have refused the prompt of one', () => {
    fail(ann, 3, 'credential_rejected')
    expect(states()).toEqual(['ejected', 'open', 'open'])
    expect(ann.ejectedForMs('x')).toBe(300_000)
    succeed(cem)
    fail(ann, 1, 'credential_rejected')
    expect(states().slice(1)).toEqual(['open', 'open'])
    fail(bob, 1, 'credential_rejected')
    expect(states()).toEqual(['ejected', 'ejected', 'ejected'])
    expect(cem.ejectedForMs('x')).toBe(300_000)
  })

  test('follows at once when a server is busy', () => {
    fail(ann, 1, 'busy')
    expect(states()).toEqual(['ejected', 'ejected', 'ejected'])
  })

  test('ends although the requests of one customer keep failing', () => {
    fail(ann, 4)
    fail(bob)
    for (let n = 0; n < 50; n++) {
      nowMs += 1_000
      if (ann.state('x') !== 'ejected') fail(ann)
    }
    nowMs += 300_000
    expect(bob.state('x')).toBe('probing')
    succeed(bob, 3)
    expect(bob.state('x')).toBe('open')
  })
})

test('latency and requests in flight are shared by all customers', () => {
  ann.beginRequest('x')
  bob.beginRequest('x')
  fail(ann)
  ann.endRequest('x')
  expect(cem.inFlight('x')).toBe(1)
  succeed(bob, 5)
  expect(cem.predictMs('x', { stream: true, outputTokens: null })).toBe(10)
})

test('memory is bounded', () => {
  fail(ann, 5)
  nowMs += 1
  for (let n = 0; n < 10_000; n++) ann.recordFailure(`offer-${n}`, 'server_error')
  expect(ann.state('x')).toBe('open')
})

test('a key splits into customer and offer', () => {
  expect(splitCustomerOfferKey('ann gpu 1/model')).toEqual({ customerId: 'ann', offerId: 'gpu 1/model' })
})
