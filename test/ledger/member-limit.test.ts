import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KeyLimit, LimitReset, MemberLimit } from '../../src/base/domain/caller.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { setMemberLimit } from '../../src/identity/people/member-limits.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNodes } from './ledger-world.ts'
import { addLimitedMember } from './limited-member.ts'

const HOLD = 1_000n
/** A Saturday, the last day but one of an ISO week. */
const SATURDAY_MS = Date.UTC(2026, 10, 21, 23, 59, 30)

let nowMs = SATURDAY_MS
const world = useLedgerWorld()
const nodes = useNodes(world, 2, { bulkLeases: true, windowClock: () => nowMs })

/** A member with a limit and this many keys. */
async function member(
  limitNanos: bigint,
  { reset = 'none' as LimitReset, keys = 2, keyLimit = null as KeyLimit | null } = {},
) {
  const customerId = await world.addCustomer(1_000_000_000_000n)
  const memberLimit = await addLimitedMember(world.pool, customerId, { limitNanos, reset })
  const ids = await issueKeys(customerId, memberLimit, keys, keyLimit)
  const ask = (holdNanos = HOLD, key = 0, more: Partial<Admission> = {}) =>
    admissionOf(customerId, holdNanos, { keyId: ids[key]!, memberLimit, keyLimit, ...more })
  return { customerId, memberLimit, ask }
}

async function issueKeys(customerId: string, { personId }: MemberLimit, count: number, limit: KeyLimit | null) {
  const issued = Array.from({ length: count }, (_, n) =>
    issueKey(world.pool, { customerId, name: `key ${n}`, personId, limit }),
  )
  return (await Promise.all(issued)).map(({ keyId }) => keyId)
}

async function spendOf({ personId }: MemberLimit) {
  const { rows } = await world.pool.query(
    'SELECT spent_nanos AS spent, leased_nanos AS leased FROM member_spend WHERE person_id = $1 ORDER BY window_start',
    [personId],
  )
  return rows
}

test('400 concurrent requests with two keys on two nodes never hold more than the limit of their member', async () => {
  const { customerId, memberLimit, ask } = await member(100n * HOLD + HOLD / 2n)
  const colleague = await addLimitedMember(world.pool, customerId, { limitNanos: 10n * HOLD, reset: 'none' })
  const asked = Array.from({ length: 400 }, (_, i) => ask(HOLD, (i >> 1) % 2))
  // A colleague has a limit of their own, and keys without a member's limit are admitted in memory.
  const others = Array.from({ length: 20 }, () => ask(HOLD, 0, { memberLimit: colleague }))
  const free = Array.from({ length: 100 }, () => admissionOf(customerId, HOLD))
  const admit = (admission: Admission, i: number) => nodes[i % 2]!.ledger.admit(admission)
  const [results, ofOthers, ofFree] = await Promise.all([
    Promise.all(asked.map(admit)),
    Promise.all(others.map(admit)),
    Promise.all(free.map(admit)),
  ])
  const granted = asked.filter((_, i) => results[i]!.kind === 'granted')
  expect(granted).toHaveLength(100)
  expect(ofOthers.filter(({ kind }) => kind === 'granted')).toHaveLength(10)
  expect(ofFree.every(({ kind }) => kind === 'granted')).toBe(true)
  for (const result of results) {
    if (result.kind === 'refused')
      expect(result).toMatchObject({ code: 'in_flight_budget', member: { spentNanos: 0n, leftNanos: HOLD / 2n } })
  }
  expect(await spendOf(memberLimit)).toEqual([{ spent: 0n, leased: 100n * HOLD }])

  await Promise.all(granted.map((admission, i) => settle(nodes[i % 2]!.ledger, settlementOf(admission, HOLD, HOLD))))
  expect(await spendOf(memberLimit)).toEqual([{ spent: 100n * HOLD, leased: 0n }])
  expect(await nodes[0]!.ledger.admit(ask())).toMatchObject({
    code: 'member_spend_limit_reached',
    key: null,
    member: { spentNanos: 100n * HOLD, leftNanos: HOLD / 2n, endsAtEpochMs: null },
  })
  expect(await nodes[1]!.ledger.admit(ask(HOLD / 2n, 1))).toMatchObject({ kind: 'granted' })
  await setMemberLimit(world.pool, customerId, memberLimit.personId, { limitNanos: 200n * HOLD, reset: 'none' })
  const raised = { ...memberLimit, limitNanos: 200n * HOLD }
  expect(await nodes[0]!.ledger.admit(ask(HOLD, 0, { memberLimit: raised }))).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})

test.each([
  ['the limit of the key', 300n, 900n, 'key_spend_limit_reached'],
  ['the limit of the member', 900n, 300n, 'member_spend_limit_reached'],
  ['of two limits without room, that of the key', 300n, 300n, 'key_spend_limit_reached'],
] as const)('a refusal names %s', async (_, ofKey, ofMember, code) => {
  const { memberLimit, ask } = await member(ofMember, { keyLimit: { limitNanos: ofKey, reset: 'none' } })
  const first = ask(200n)
  expect(await nodes[0]!.ledger.admit(first)).toMatchObject({ kind: 'granted' })
  await settle(nodes[0]!.ledger, settlementOf(first, 200n, 200n))
  expect(await nodes[1]!.ledger.admit(ask(200n))).toMatchObject({ kind: 'refused', code })
  expect(await spendOf(memberLimit)).toEqual([{ spent: 200n, leased: 0n }])
})

test.each([
  ['daily', Date.UTC(2026, 10, 22)],
  ['weekly', Date.UTC(2026, 10, 23)],
  ['monthly', Date.UTC(2026, 11, 1)],
] as const)(
  'a %s limit starts again at the edge of its window, and a late charge counts before it',
  async (reset, edgeMs) => {
    nowMs = SATURDAY_MS
    const { memberLimit, ask } = await member(HOLD, { reset })
    const before = ask()
    expect(await nodes[0]!.ledger.admit(before)).toMatchObject({ kind: 'granted' })
    nowMs = edgeMs - 1
    expect(await nodes[1]!.ledger.admit(ask(HOLD, 1))).toMatchObject({
      code: 'in_flight_budget',
      member: { endsAtEpochMs: edgeMs },
    })
    nowMs = edgeMs
    expect(await nodes[1]!.ledger.admit(ask(HOLD, 1))).toMatchObject({ kind: 'granted' })
    await settle(nodes[0]!.ledger, settlementOf(before, HOLD, 400n))
    expect(await spendOf(memberLimit)).toEqual([
      { spent: 400n, leased: 0n },
      { spent: 0n, leased: HOLD },
    ])
    expect(await world.violations()).toEqual([])
    nowMs = SATURDAY_MS
  },
)

test.each([
  ['the member', 2n * HOLD, 10n * HOLD],
  ['the key', 10n * HOLD, 2n * HOLD],
])(
  'a charge of a dead node counts against both limits, and against none when that of %s is used up',
  async (_, ofMember, ofKey) => {
    const keyLimit = { limitNanos: ofKey, reset: 'none' } as const
    const { memberLimit, ask } = await member(ofMember, { keyLimit })
    const dying = await world.addNode({ windowClock: () => nowMs })
    const [fits, tooMuch] = [ask(), ask()]
    for (const admission of [fits, tooMuch])
      expect(await dying.ledger.admit(admission)).toMatchObject({ kind: 'granted' })
    await storeOf(world.pool).retireNode(dying.nodeId)
    await reclaimDeadLeases(world.pool, { nodeShard: 9 })
    expect(await spendOf(memberLimit)).toEqual([{ spent: 0n, leased: 0n }])
    expect(await nodes[0]!.ledger.admit(ask())).toMatchObject({ kind: 'granted' })
    for (const admission of [fits, tooMuch]) await settle(dying.ledger, settlementOf(admission, HOLD, 900n))
    expect(await spendOf(memberLimit)).toEqual([{ spent: 900n, leased: HOLD }])
    expect(await world.violations()).toEqual([])
  },
)

test('random concurrent requests of several members and keys agree with an oracle, and leave no hold behind', async () => {
  nowMs = SATURDAY_MS
  await fc.assert(
    fc.asyncProperty(plan, async ({ members, requests }) => {
      const customerId = await world.addCustomer(1_000_000_000n)
      const people = await Promise.all(
        members.map(async ({ limitNanos, keyLimits }) => {
          const memberLimit = await addLimitedMember(world.pool, customerId, { limitNanos, reset: 'monthly' })
          const keys = await Promise.all(
            keyLimits.map(async nanos => {
              const keyLimit = nanos === null ? null : ({ limitNanos: nanos, reset: 'weekly' } as const)
              const [keyId] = await issueKeys(customerId, memberLimit, 1, keyLimit)
              return { keyId: keyId!, keyLimit, spentNanos: 0n }
            }),
          )
          return { memberLimit, keys, spentNanos: 0n }
        }),
      )
      for (const wave of requests) {
        // What the oracle knows while a wave runs: every hold that was granted, and the limits.
        const outcomes = await Promise.all(
          wave.map(async ({ member, key, holdNanos, share }, i) => {
            const person = people[member % people.length]!
            const used = person.keys[key % person.keys.length]!
            const { ledger } = nodes[i % 2]!
            const admission = admissionOf(customerId, holdNanos, {
              keyId: used.keyId,
              keyLimit: used.keyLimit,
              memberLimit: person.memberLimit,
            })
            const result = await ledger.admit(admission)
            if (result.kind !== 'granted') return { person, used, holdNanos, result, chargedNanos: 0n }
            const chargedNanos = (holdNanos * BigInt(share)) / 100n
            await settle(ledger, settlementOf(admission, holdNanos, chargedNanos))
            return { person, used, holdNanos, result, chargedNanos }
          }),
        )
        for (const { person, used, chargedNanos } of outcomes) {
          person.spentNanos += chargedNanos
          used.spentNanos += chargedNanos
        }
        for (const { person, used, holdNanos, result } of outcomes) {
          expect(person.spentNanos).toBeLessThanOrEqual(person.memberLimit.limitNanos)
          if (used.keyLimit) expect(used.spentNanos).toBeLessThanOrEqual(used.keyLimit.limitNanos)
          if (result.kind !== 'refused') continue
          // A final refusal is right also after the wave: spend only grows.
          if (result.code === 'member_spend_limit_reached')
            expect(person.spentNanos + holdNanos).toBeGreaterThan(person.memberLimit.limitNanos)
          else if (result.code === 'key_spend_limit_reached')
            expect(used.spentNanos + holdNanos).toBeGreaterThan(used.keyLimit!.limitNanos)
          else expect(result.code).toBe('in_flight_budget')
        }
        for (const { memberLimit, spentNanos } of people)
          expect(await spendOf(memberLimit).then(rows => rows[0] ?? { spent: 0n, leased: 0n })).toEqual({
            spent: spentNanos,
            leased: 0n,
          })
      }
      const { rows } = await world.pool.query('SELECT leased_nanos AS leased FROM balance WHERE customer_id = $1', [
        customerId,
      ])
      expect(rows).toEqual([{ leased: 0n }])
    }),
    { numRuns: 12 },
  )
  expect(await world.violations()).toEqual([])
})

const amount = fc.bigInt(0n, 3_000n)
const plan = fc.record({
  members: fc.array(
    fc.record({ limitNanos: amount, keyLimits: fc.array(fc.option(amount), { minLength: 1, maxLength: 3 }) }),
    { minLength: 1, maxLength: 3 },
  ),
  requests: fc.array(
    fc.array(
      fc.record({
        member: fc.nat(9),
        key: fc.nat(9),
        holdNanos: fc.bigInt(1n, 1_200n),
        share: fc.integer({ min: 0, max: 100 }),
      }),
      { minLength: 1, maxLength: 12 },
    ),
    { minLength: 1, maxLength: 4 },
  ),
})
