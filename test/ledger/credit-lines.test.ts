// Requests that wait for credit that running requests of their customer hold.
import { expect, test } from 'vitest'
import type { KeyLimit } from '../../src/base/domain/caller.ts'
import { CancelSource } from '../../src/base/runtime/cancel-signal.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import type { Admission, AdmissionResult } from '../../src/money/ledger/leases/admission.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { createMemoryDisk } from '../journal/memory-disk.ts'
import {
  admissionOf,
  settle,
  settlementOf,
  type TestNode,
  unlimited,
  useLedgerWorld,
  useNodes,
} from './ledger-world.ts'
import { addLimitedMember } from './limited-member.ts'

const world = useLedgerWorld()
const nodes = useNodes(world, 2)
const [node, otherNode] = nodes as [TestNode, TestNode]

const HOLD = 600n
const CHARGE = 100n
/** Longer than any test. */
const LONG_MS = 600_000

function waiting(customerId: string, holdNanos = HOLD, more: Partial<Admission> = {}): Admission {
  return admissionOf(customerId, holdNanos, {
    creditWait: { forMs: LONG_MS, signal: new CancelSource() },
    ...more,
  })
}

/** Admits a request and keeps it running. */
async function run(at: TestNode, admission: Admission): Promise<Admission> {
  expect(await at.ledger.admit(admission)).toMatchObject({ kind: 'granted' })
  return admission
}

/** Ends a running request with a charge. */
function end({ ledger }: TestNode, admission: Admission, chargeNanos = CHARGE): Promise<void> {
  return settle(ledger, settlementOf(admission, admission.ask!.wantNanos, chargeNanos))
}

/** Sends a request and resolves when it waits. */
async function queue(at: TestNode, admission: Admission) {
  const before = at.ledger.pending.waitingForCredit
  const result = at.ledger.admit(admission)
  await untilWaiting(at, before + 1)
  return { admission, result }
}

function untilWaiting({ ledger }: TestNode, count: number): Promise<void> {
  return expect.poll(() => ledger.pending.waitingForCredit, WAIT_OPTIONS).toBe(count)
}

test('of 120 requests at once with credit for 20, as many are served as the worst case allows, and none is refused before', async () => {
  const { journal } = openJournal({ disk: createMemoryDisk(), scheduler: systemScheduler, fsync: false })
  const gateway = await world.addNode({ journal, bulkLeases: true })
  const customerId = await world.addCustomer(20n * CHARGE)
  const order: number[] = []
  const codes = await Promise.all(
    Array.from({ length: 120 }, async (_, number) => {
      const admission = waiting(customerId)
      const result = await gateway.ledger.admit(admission)
      if (result.kind !== 'granted') return result.kind === 'refused' && result.code
      order.push(number)
      await end(gateway, admission)
      return 'served'
    }),
  )
  // Served in their order, until the rest of the balance does not cover one hold.
  expect(order).toEqual(Array.from({ length: 15 }, (_, number) => number))
  expect(codes.filter(code => code === 'served')).toHaveLength(15)
  expect(codes.filter(code => code === 'insufficient_credits')).toHaveLength(105)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 5n * CHARGE, leasedNanos: 0n })
  expect(await world.dayCounted(customerId)).toBe(120)
  expect(gateway.ledger.pending.waitingForCredit).toBe(0)
  expect(await world.violations()).toEqual([])
})

test('requests are served in the order of their arrival, whatever they hold', async () => {
  const customerId = await world.addCustomer(1_000n)
  const [first, second] = [
    await run(node, admissionOf(customerId, 500n)),
    await run(node, admissionOf(customerId, 400n)),
  ]
  const large = waiting(customerId, 700n)
  const small = waiting(customerId, 200n)
  const [one, two] = [await queue(node, large), await queue(node, small)]
  await end(node, first, 0n)
  // 600 are free: enough for the second one, which does not overtake the first.
  await end(node, second, 0n)
  expect(await one.result).toMatchObject({ kind: 'granted', hold: { nanos: 700n }, waitedMs: expect.any(Number) })
  expect(await two.result).toMatchObject({ kind: 'granted', hold: { nanos: 200n } })
  // A later one does not overtake them either, although it fits.
  const third = await queue(node, waiting(customerId, 900n))
  const late = await queue(node, waiting(customerId, 50n))
  for (const admission of [large, small]) await end(node, admission, 0n)
  expect([await third.result, await late.result]).toMatchObject([{ kind: 'granted' }, { kind: 'granted' }])
  expect(await world.violations()).toEqual([])
})

test('a request whose client leaves gives up its place, and counts', async () => {
  const customerId = await world.addCustomer(1_000n)
  const running = await run(node, admissionOf(customerId, 1_000n))
  const client = new CancelSource()
  const left = await queue(node, waiting(customerId, 900n, { creditWait: { forMs: LONG_MS, signal: client } }))
  const gone = new CancelSource()
  const untried = await queue(node, waiting(customerId, 1_000n, { creditWait: { forMs: LONG_MS, signal: gone } }))
  const next = await queue(node, waiting(customerId, 500n))
  client.abort('client_gone')
  await expect(left.result).rejects.toThrow()
  gone.abort('client_gone')
  await expect(untried.result).rejects.toThrow()
  await end(node, running)
  expect(await next.result).toMatchObject({ kind: 'granted' })
  await expect.poll(() => world.dayCounted(customerId), WAIT_OPTIONS).toBe(4)
  expect(node.ledger.pending.waitingForCredit).toBe(0)
})

test('a request waits for the holds of another node, and for credit that is added', async () => {
  const customerId = await world.addCustomer(1_000n)
  const running = await run(otherNode, admissionOf(customerId, 900n))
  const waits = await queue(node, waiting(customerId, 500n))
  await end(otherNode, running)
  expect(await waits.result).toMatchObject({ kind: 'granted' })
  const more = await queue(node, waiting(customerId, 600n))
  await grantCredit(world.pool, { customerId, amountNanos: 500n, reason: 'test', ref: customerId })
  expect(await more.result).toMatchObject({ kind: 'granted' })
})

test('two nodes with 40 requests each serve all credit, and nothing more', async () => {
  const customerId = await world.addCustomer(20n * CHARGE)
  const results = await Promise.all(
    Array.from({ length: 80 }, async (_, number) => {
      const at = nodes[number % 2]!
      const admission = waiting(customerId)
      const result = await at.ledger.admit(admission)
      if (result.kind === 'granted') await end(at, admission)
      return result
    }),
  )
  expect(results.filter(({ kind }) => kind === 'granted')).toHaveLength(15)
  expect(results.filter(result => result.kind === 'refused' && result.code === 'insufficient_credits')).toHaveLength(65)
  expect(await world.violations()).toEqual([])
})

test('a request waits for the limit of its key, and no other key waits for it', async () => {
  const customerId = await world.addCustomer(100_000n)
  const limit: KeyLimit = { limitNanos: 1_000n, reset: 'none' }
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit })
  const ofKey = { keyId, keyLimit: limit }
  const running = await run(node, admissionOf(customerId, 900n, ofKey))
  const waits = await queue(node, waiting(customerId, 800n, ofKey))
  const behind = await queue(node, waiting(customerId, 50n, ofKey))
  await run(node, waiting(customerId, 5_000n))
  await end(node, running)
  const granted = [await waits.result, await behind.result]
  expect(granted).toMatchObject([{ kind: 'granted' }, { kind: 'granted' }])
  expect(await world.violations()).toEqual([])
})

test('a request waits for the limit of its member and for the daily cap', async () => {
  const customerId = await world.addCustomer(100_000n)
  const memberLimit = await addLimitedMember(world.pool, customerId, { limitNanos: 1_000n, reset: 'none' })
  const first = await run(node, admissionOf(customerId, 900n, { memberLimit }))
  const ofMember = await queue(node, waiting(customerId, 800n, { memberLimit }))
  const limits = { ...unlimited, dailySpendCapNanos: 2_000n }
  const second = await run(node, admissionOf(customerId, 1_000n, { limits }))
  const ofCap = await queue(node, waiting(customerId, 1_500n, { limits }))
  await end(node, second, 50n)
  await end(node, first, 50n)
  expect(await ofMember.result).toMatchObject({ kind: 'granted' })
  await end(node, ofMember.admission, 50n)
  expect(await ofCap.result).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})

test('a request that cannot fit even when nothing runs is refused at once, also behind others that wait', async () => {
  const customerId = await world.addCustomer(1_000n)
  const running = await run(node, admissionOf(customerId, 900n))
  expect(await node.ledger.admit(waiting(customerId, 1_001n))).toMatchObject({ code: 'insufficient_credits' })
  const waits = await queue(node, waiting(customerId, 500n))
  expect(await node.ledger.admit(waiting(customerId, 1_001n))).toMatchObject({ code: 'insufficient_credits' })
  // What is left after the charge does not cover the hold of the one that waits.
  await end(node, running, 600n)
  expect(await waits.result).toMatchObject({ kind: 'refused', code: 'insufficient_credits', postedNanos: 400n })
})

test('a customer has at most 256 places; further requests are refused at once', async () => {
  const customerId = await world.addCustomer(1_000n)
  const running = await run(node, admissionOf(customerId, 1_000n))
  const signal = new CancelSource()
  const refused: AdmissionResult[] = []
  const results = Array.from({ length: 300 }, async () => {
    const result = await node.ledger.admit(waiting(customerId, 500n, { creditWait: { forMs: LONG_MS, signal } }))
    refused.push(result)
  })
  await expect.poll(() => refused.length, WAIT_OPTIONS).toBe(44)
  expect(new Set(refused.map(result => result.kind === 'refused' && result.code))).toEqual(
    new Set(['in_flight_budget']),
  )
  expect(node.ledger.pending.waitingForCredit).toBe(256)
  // Another customer waits, too, and a customer with credit does not.
  const other = await world.addCustomer(1_000n)
  const ofOther = await run(node, waiting(other, 900n))
  const waits = await queue(node, waiting(other, 900n))
  await end(node, ofOther, 0n)
  expect(await waits.result).toMatchObject({ kind: 'granted' })
  signal.abort('client_gone')
  await Promise.allSettled(results)
  await untilWaiting(node, 0)
  await end(node, running)
})

test('without a wait a request is refused as before', async () => {
  const customerId = await world.addCustomer(1_000n)
  await run(node, admissionOf(customerId, 900n))
  const creditWait = { forMs: 0, signal: new CancelSource() }
  const refused = await node.ledger.admit(waiting(customerId, 500n, { creditWait }))
  expect(refused).toMatchObject({ kind: 'refused', code: 'in_flight_budget' })
  expect(refused).not.toHaveProperty('waitedMs')
})

test('a node that stops ends what waits', async () => {
  const stopping = await world.addNode()
  const customerId = await world.addCustomer(1_000n)
  await run(stopping, admissionOf(customerId, 900n))
  const waits = await queue(stopping, waiting(customerId, 500n))
  stopping.ledger.stop()
  await expect(waits.result).rejects.toMatchObject({ code: 'server_shutdown' })
})
