import { randomUUID } from 'node:crypto'
import { describe, expect, it, test } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import { readSpan } from '../../src/market/trust/read-span.ts'
import { createRelatedHosters, groupBySigns } from '../../src/market/trust/related-hosters.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from '../supply/random-market.ts'
import { auditWorld, sharedRequest } from './audit-world.ts'
import { createCustomers, createHoster, insertUsage, NOW_MS } from './trust-world.ts'

// Hosters under several names of one person are one voice in what hosters are compared with, and do not get each other's questions.

const database = useTestDatabase('test')

/** Lets one person own all of these hosters. */
async function own(hosterIds: readonly string[]): Promise<void> {
  const person = await transaction(database.pool, sql => addPerson(sql, { email: `${randomUUID()}@owner.test` }))
  for (const hosterId of hosterIds) {
    await database.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
      hosterId,
      person!.personId,
    ])
  }
}

const offersOf = async (count: number): Promise<Offer[]> => {
  const created = await Promise.all(Array.from({ length: count }, () => createHoster(database)))
  return created.map(({ hosterId, endpointId }) => offerOf({ kind: 'hoster', hosterId, name: endpointId }))
}
const idsOf = (offers: readonly Offer[]) => offers.map(({ endpoint }) => endpoint.hosterId!)

describe('related hosters', () => {
  it.each<[sign: string, insert: (a: string, b: string) => Promise<unknown>]>([
    ['a person', (a, b) => own([a, b])],
    [
      'a network',
      async (a, b) => {
        await own([a])
        await own([b])
        await database.pool.query(
          `INSERT INTO person_network (person_id, network, last_used_at) SELECT person_id, '192.0.2.7', now() FROM hoster_member WHERE hoster_id = ANY ($1)`,
          [[a, b]],
        )
      },
    ],
    [
      'a browser',
      async (a, b) => {
        await own([a])
        await own([b])
        await database.pool.query(
          `INSERT INTO person_device (person_id, device_hash, last_used_at) SELECT person_id, sha256('browser'), now() FROM hoster_member WHERE hoster_id = ANY ($1)`,
          [[a, b]],
        )
      },
    ],
    [
      'a customer that gets their earnings',
      async (a, b) => {
        const [customerId] = await createCustomers(database, 1)
        await database.pool.query('INSERT INTO hoster_account (hoster_id, customer_id) SELECT unnest($1::uuid[]), $2', [
          [a, b],
          customerId,
        ])
      },
    ],
  ])('share %s, which the gateway reads with its own role', async (_sign, insert) => {
    const [a, b, stranger] = idsOf(await offersOf(3)) as [string, string, string]
    await insert(a, b)
    const pool = createPool(database.gatewayConnection, { max: 1, applicationName: 'gateway' })
    const related = createRelatedHosters(pool)
    const groups = await related.groups([a, b, stranger])
    expect(groups.get(a)).toBe(groups.get(b))
    expect(groups.get(stranger)).toBe(stranger)
    expect(new Set(await related.withRelated([a]))).toEqual(new Set([a, b]))
    expect(await related.withRelated([stranger])).toEqual([stranger])
    await pool.end()
  })

  it('are related through a third one too, which need not be asked for', async () => {
    const [a, between, c] = idsOf(await offersOf(3)) as [string, string, string]
    await own([a, between])
    await own([between, c])
    const related = createRelatedHosters(database.pool)
    expect(new Set(await related.withRelated([c]))).toEqual(new Set([a, between, c]))
    const groups = await related.groups([a, c])
    expect([...groups.keys()].sort()).toEqual([a, c].sort())
    expect(groups.get(a)).toBe(groups.get(c))
  })

  it('are one group when a third one connects them', () => {
    const signs = [
      ['a', 'x'],
      ['c', 'y'],
      ['b', 'x'],
      ['b', 'y'],
      ['d', 'z'],
    ].map(([hosterId, sign]) => ({ hosterId: hosterId!, sign: sign! }))
    const groups = groupBySigns(['a', 'b', 'c', 'd', 'e'], signs)
    expect(new Set(['a', 'b', 'c'].map(id => groups.get(id))).size).toBe(1)
    expect([groups.get('d'), groups.get('e')]).toEqual(['d', 'e'])
  })
})

const questions = (customers: readonly string[]) =>
  customers.map((customerId, at) =>
    sharedRequest({ customerId, body: { messages: [{ role: 'user', content: `question ${at}` }] } }),
  )

test('a panel has one hoster of each person: those that ask each other would agree', async () => {
  const servers = await offersOf(4)
  const world = await auditWorld(database, {
    servers,
    shared: questions(await createCustomers(database, 4)),
    answer: () => 'one two',
  })
  await own(idsOf(servers.slice(0, 2)))
  await own([world.hosterId, servers[2]!.endpoint.hosterId!])
  await world.audit()
  const asked = new Set(world.asked().map(({ server }) => server))
  expect(asked.size).toBe(2)
  expect(asked).toContain(servers[3])
  expect(asked).not.toContain(servers[2])
})

test('without two strangers there is no panel', async () => {
  const servers = await offersOf(2)
  const world = await auditWorld(database, { servers, answer: () => 'one two' })
  await own(idsOf(servers))
  await world.audit()
  expect((await world.audits()).filter(({ kind }) => kind !== 'canary')).toEqual([])
})

test('a request that a related hoster has seen is not repeated, since they compare notes', async () => {
  const [known, fresh] = questions(await createCustomers(database, 2)) as [
    ReturnType<typeof sharedRequest>,
    ReturnType<typeof sharedRequest>,
  ]
  const [other] = await offersOf(1)
  const world = await auditWorld(database, { shared: [known, fresh], answer: () => 'It turns.' })
  const otherId = other!.endpoint.hosterId!
  await own([world.hosterId, otherId])
  await world.seen.claim(known.conversation, [otherId])
  await world.audit(10)
  const texts = world.sent().map(({ body }) => body.messages.at(-1)!.content)
  expect(texts).toContain('question 1')
  expect(texts).not.toContain('question 0')
  // And the related one will not get what this one got.
  expect(await world.seen.seenBy([otherId], [fresh.conversation])).toEqual(new Set([fresh.conversation]))
})

test('three names of one person have one vote about the tokens of a model', async () => {
  const liars = await Promise.all(Array.from({ length: 3 }, () => createHoster(database)))
  const honest = await Promise.all(Array.from({ length: 2 }, () => createHoster(database)))
  const customers = await createCustomers(database, 12)
  const report = async (hoster: { hosterId: string; endpointId: string }, ratio: number) => {
    for (const minute of [0, 10, 20]) {
      const startedMs = NOW_MS - 3_500_000 + minute * 60_000
      for (const customerId of customers)
        await insertUsage(database, { customerId, ...hoster, count: 4, ratio, startedMs })
    }
  }
  const ratioOf = async () => {
    while (await transaction(database.pool, sql => readSpan(sql, NOW_MS, 0)));
    const { rows } = await database.pool.query<{ ratio: { input: number; isLearned: boolean } }>(
      "SELECT ratio FROM meter_ratio WHERE model_id = 'm'",
    )
    return rows[0]?.ratio
  }
  await own(liars.map(({ hosterId }) => hosterId))
  for (const hoster of liars) await report(hoster, 1.4)
  for (const hoster of honest) await report(hoster, 1)
  const ratio = await ratioOf()
  expect(ratio?.isLearned).toBe(true)
  expect(ratio?.input).toBeCloseTo(1, 1)
})
