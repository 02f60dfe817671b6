import { expect, test } from 'vitest'
import type { KeyLimit, LimitReset } from '../../src/base/domain/caller.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNodes } from './ledger-world.ts'

const HOLD = 1_000n
/** A Saturday, the last day but one of an ISO week. */
const SATURDAY_MS = Date.UTC(2026, 10, 21, 23, 59, 30)

let nowMs = SATURDAY_MS
const world = useLedgerWorld()
const nodes = useNodes(world, 3, { bulkLeases: true, windowClock: () => nowMs })

async function limitedKey(limitNanos: bigint, reset: LimitReset = 'none') {
  const customerId = await world.addCustomer(1_000_000_000_000n)
  const limit: KeyLimit = { limitNanos, reset }
  const keyId = await issueLimitedKey(customerId, limit)
  const ask = (holdNanos = HOLD, more: Partial<Admission> = {}) =>
    admissionOf(customerId, holdNanos, { keyId, keyLimit: limit, ...more })
  return { customerId, keyId, ask }
}

async function issueLimitedKey(customerId: string, limit: KeyLimit) {
  const { keyId } = await issueKey(world.pool, { customerId, name: 'limited', limit })
  return keyId
}

async function spendOf(keyId: string) {
  const { rows } = await world.pool.query(
    'SELECT spent_nanos AS spent, leased_nanos AS leased FROM key_spend WHERE key_id = $1 ORDER BY window_start',
    [keyId],
  )
  return rows
}

test('600 concurrent requests on three nodes never hold more than the limit of the key, although the balance is large', async () => {
  const { customerId, keyId, ask } = await limitedKey(100n * HOLD + HOLD / 2n)
  // Another key of the same customer is admitted in memory during that time. The limit does not affect it.
  const free = Array.from({ length: 300 }, () => admissionOf(customerId, HOLD))
  const limited = Array.from({ length: 600 }, () => ask())
  const admit = (admission: Admission, i: number) => nodes[i % nodes.length]!.ledger.admit(admission)
  const [results, others] = await Promise.all([Promise.all(limited.map(admit)), Promise.all(free.map(admit))])
  expect(others.every(result => result.kind === 'granted')).toBe(true)
  const granted = limited.filter((_, i) => results[i]!.kind === 'granted')
  expect(granted).toHaveLength(100)
  for (const result of results) {
    if (result.kind === 'refused')
      expect(result).toMatchObject({ code: 'in_flight_budget', key: { spentNanos: 0n, leftNanos: HOLD / 2n } })
  }
  expect(await spendOf(keyId)).toEqual([{ spent: 0n, leased: 100n * HOLD }])

  await Promise.all(granted.map((admission, i) => settle(nodes[i % 3]!.ledger, settlementOf(admission, HOLD, HOLD))))
  await Promise.all(
    free.map((admission, i) => {
      const result = others[i]!
      if (result.kind !== 'granted') throw new Error('not granted')
      const settlement = { ...settlementOf(admission, HOLD, HOLD), leaseId: result.hold.leaseId }
      return nodes[i % 3]!.ledger.settle(settlement, result.hold)
    }),
  )
  expect(await spendOf(keyId)).toEqual([{ spent: 100n * HOLD, leased: 0n }])
  expect(await nodes[0]!.ledger.admit(ask())).toMatchObject({
    code: 'key_spend_limit_reached',
    key: { spentNanos: 100n * HOLD, leftNanos: HOLD / 2n, endsAtEpochMs: null },
  })
  expect(await nodes[1]!.ledger.admit(ask(HOLD / 2n))).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})

test('two keys of one customer in one batch have a limit each', async () => {
  const customerId = await world.addCustomer(1_000_000n)
  const limit: KeyLimit = { limitNanos: 100n, reset: 'none' }
  const keys = [await issueLimitedKey(customerId, limit), await issueLimitedKey(customerId, limit)]
  const admissions = [...keys, ...keys].map(keyId => admissionOf(customerId, 60n, { keyId, keyLimit: limit }))
  const verdicts = await storeOf(world.pool).admit(nodes[0]!.nodeId, admissions)
  const left = { key: { spentNanos: 0n, leftNanos: 40n } }
  expect(verdicts.toSorted((a, b) => a.item - b.item)).toMatchObject([
    { kind: 'granted', heldNanos: 60n },
    { kind: 'granted', heldNanos: 60n },
    { code: 'in_flight_budget', ...left },
    { code: 'in_flight_budget', ...left },
  ])
  for (const keyId of keys) expect(await spendOf(keyId)).toEqual([{ spent: 0n, leased: 60n }])
  expect(await world.violations()).toEqual([])
})

test('a flexible hold takes what the limit leaves, down to its floor', async () => {
  const { ask } = await limitedKey(25n)
  const atLeastHalf = { wantNanos: 10n, floorNanos: 5n }
  const held = []
  for (let i = 0; i < 4; i++) {
    const result = await nodes[i % 3]!.ledger.admit(ask(0n, { ask: atLeastHalf }))
    held.push(result.kind === 'granted' ? result.hold.nanos : result.kind === 'refused' && result.code)
  }
  expect(held).toEqual([10n, 10n, 5n, 'in_flight_budget'])
})

test('the limit gets back what is not charged and what never ran', async () => {
  const { keyId, ask } = await limitedKey(2n * HOLD)
  const [charged, dropped] = [ask(), ask()]
  for (const admission of [charged, dropped])
    expect(await nodes[0]!.ledger.admit(admission)).toMatchObject({ kind: 'granted' })
  await settle(nodes[0]!.ledger, settlementOf(charged, HOLD, 300n))
  await storeOf(world.pool).release([dropped.requestId])
  expect(await spendOf(keyId)).toEqual([{ spent: 300n, leased: 0n }])
  expect(await nodes[1]!.ledger.admit(ask(1_700n))).toMatchObject({ kind: 'granted' })
})

test.each([
  ['daily', Date.UTC(2026, 10, 22)],
  ['weekly', Date.UTC(2026, 10, 23)],
  ['monthly', Date.UTC(2026, 11, 1)],
] as const)(
  'a %s limit starts again at the edge of its window, and a late charge counts in the window of its admission',
  async (reset, edgeMs) => {
    nowMs = SATURDAY_MS
    const { keyId, ask } = await limitedKey(HOLD, reset)
    const before = ask()
    expect(await nodes[0]!.ledger.admit(before)).toMatchObject({ kind: 'granted' })
    const refused = await nodes[1]!.ledger.admit(ask())
    expect(refused).toMatchObject({ code: 'in_flight_budget', key: { endsAtEpochMs: edgeMs } })
    nowMs = edgeMs - 1
    expect(await nodes[1]!.ledger.admit(ask())).toMatchObject({ code: 'in_flight_budget' })
    nowMs = edgeMs
    expect(await nodes[1]!.ledger.admit(ask())).toMatchObject({ kind: 'granted' })
    await settle(nodes[0]!.ledger, settlementOf(before, HOLD, 400n))
    expect(await spendOf(keyId)).toEqual([
      { spent: 400n, leased: 0n },
      { spent: 0n, leased: HOLD },
    ])
    expect(await world.violations()).toEqual([])
    nowMs = SATURDAY_MS
  },
)

test('a charge of a node that was declared dead counts against the limit, and is written off when the limit is used up', async () => {
  const { keyId, ask } = await limitedKey(2n * HOLD)
  const dying = await world.addNode({ windowClock: () => nowMs })
  const [fits, tooMuch] = [ask(), ask()]
  for (const admission of [fits, tooMuch])
    expect(await dying.ledger.admit(admission)).toMatchObject({ kind: 'granted' })
  await storeOf(world.pool).retireNode(dying.nodeId)
  await reclaimDeadLeases(world.pool, { nodeShard: 9 })
  expect(await spendOf(keyId)).toEqual([{ spent: 0n, leased: 0n }])
  expect(await nodes[0]!.ledger.admit(ask())).toMatchObject({ kind: 'granted' })
  for (const admission of [fits, tooMuch]) await settle(dying.ledger, settlementOf(admission, HOLD, 900n))
  expect(await spendOf(keyId)).toEqual([{ spent: 900n, leased: HOLD }])
  expect(await world.violations()).toEqual([])
})
