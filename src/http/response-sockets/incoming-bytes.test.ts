import { expect, it } from 'vitest'
import { ApiError } from '../../base/domain/errors.ts'
import { ByteBudget } from '../../base/runtime/counted-memory.ts'
import { createInFlight } from '../in-flight.ts'
import { IncomingBytes } from './incoming-bytes.ts'

const LIMIT_BYTES = 1_000_000

function setUp(budgetBytes = 100_000_000) {
  const memory = new ByteBudget(budgetBytes)
  const inFlight = createInFlight({ max: 10, memory })
  return { memory, incoming: new IncomingBytes(inFlight, 'customer', LIMIT_BYTES) }
}

it('counts what arrives, and passes the memory of a whole message on', () => {
  const { memory, incoming } = setUp()
  expect(incoming.add(10_000, 0)).toBe(null)
  expect(memory.usedBytes).toBe(0)
  expect(incoming.add(90_000, 0)).toBe(null)
  expect(memory.usedBytes).toBe(100_000)
  const account = incoming.complete(99_990)
  if (account instanceof ApiError) throw account
  expect(memory.usedBytes).toBe(100_000)
  account.leave()
  expect(memory.usedBytes).toBe(0)
})

it('refuses what is too long, comes in too many pieces or has no memory, and then holds nothing', () => {
  const long = setUp()
  expect(long.incoming.add(LIMIT_BYTES + 100_000, 0)).toMatchObject({ code: 'request_too_large' })
  const { incoming } = setUp()
  let refusal: ApiError | null = null
  let pieces = 0
  for (; refusal === null && pieces < 100_000; pieces++) refusal = incoming.add(1, 0)
  expect(refusal).toMatchObject({ code: 'request_too_large', message: expect.stringContaining('small pieces') })
  expect(pieces).toBeLessThan(10_000)
  const full = setUp(1_000)
  expect(full.incoming.add(50_000, 0)).toMatchObject({ code: 'overloaded' })
  full.incoming.close()
  expect(full.memory.usedBytes).toBe(0)
  const small = setUp(1_000)
  small.incoming.add(5_000, 0)
  expect(small.incoming.complete(5_000)).toMatchObject({ code: 'overloaded' })
})

it('finds a message late that has not arrived within 30 s, however many pings are between its pieces', () => {
  const { incoming } = setUp()
  expect(incoming.isLate(1_000_000)).toBe(false)
  incoming.add(100, 1_000)
  incoming.add(8, 20_000)
  incoming.passControl(2)
  expect(incoming.isLate(31_000)).toBe(false)
  expect(incoming.isLate(31_001)).toBe(true)
  incoming.complete(100)
  incoming.add(8, 40_000)
  incoming.passControl(2)
  expect(incoming.isLate(1_000_000)).toBe(false)
})
