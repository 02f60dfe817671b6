import { expect, test } from 'vitest'
import { plainAccess } from '../../src/base/domain/caller.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import type { Attempt, Ticket } from '../../src/base/domain/handoff.ts'
import { Unserved } from '../../src/base/domain/upstream-failure.ts'
import { unservedReceipt } from '../../src/request/relay/unserved-receipt.ts'
import { jobOf, offerOf } from '../supply/random-market.ts'

const offer = offerOf({ name: 'a' })
const job = jobOf({ promptText: () => 'Hello there.' })
const ticket: Ticket = {
  requestId: '00000000-0000-7000-8000-000000000001',
  hold: { leaseId: '00000000-0000-7000-8000-000000000001', nanos: 1_000_000n, isOpen: true },
  caller: {
    customerId: '00000000-0000-7000-8000-000000000002',
    keyId: '00000000-0000-7000-8000-000000000003',
    email: 'ada@example.com',
    accountTier: 'free',
    sharesRequests: false,
    prices: null,
    access: plainAccess,
    limits: { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n },
  },
  startedAtEpochMs: 0,
  startedMonotonicMs: 0,
  label: null,
  models: ['m'],
  eligible: [offer],
  excluded: [],
  maxTokens: 100,
  clamp: null,
}

/** Builds a receipt for a customer without free leaves, so only the attempts decide whether it pays. */
const receiptOf = (signal: AbortSignal, ...outcomes: Attempt['outcome'][]) => {
  const attempts = outcomes.map(
    (outcome): Attempt => ({ offerId: offer.offerId, endpointId: 'a', provider: 'local', outcome, elapsedMs: 1 }),
  )
  return unservedReceipt(new Unserved('all_hosters_failed', attempts), ticket, job, signal, () => true)
}
const left = AbortSignal.abort('client_gone')

test('a client that leaves while a server works on its prompt pays for the input', () => {
  expect(receiptOf(left, 'server_error', 'cancelled')).toMatchObject({
    outcome: 'client_gone',
    offer,
    billedInputTokens: 9,
    billedOutputTokens: 0,
    usageSource: 'gateway',
  })
})

test.each([
  [],
  ['busy'],
  ['cancelled', 'connect_failed'],
  ['not_sent'],
  ['first_token_timeout', 'not_sent'],
] as Attempt['outcome'][][])('a client that leaves while no server is working pays nothing (%j)', (...outcomes) => {
  expect(receiptOf(left, ...outcomes)).toMatchObject({ outcome: 'client_gone', offer: null, billedInputTokens: 0 })
})

test('a request that ends by shutdown or without a server is free', () => {
  const stopped = AbortSignal.abort(new ApiError('server_shutdown'))
  expect(receiptOf(stopped, 'cancelled')).toMatchObject({ outcome: 'shutdown', offer: null, billedInputTokens: 0 })
  const staying = new AbortController().signal
  expect(receiptOf(staying, 'busy')).toMatchObject({ outcome: 'unserved', offer: null, billedInputTokens: 0 })
})
