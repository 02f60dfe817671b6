import { expect, test } from 'vitest'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from '../supply/random-market.ts'
import { auditWorld, talker } from './audit-world.ts'

const database = useTestDatabase()
const perMillion = (usd: bigint) => ({ inputPicoPerToken: usd * 1_000_000n, outputPicoPerToken: usd * 1_000_000n })
const cloud = (name: string, usd: bigint) => offerOf({ kind: 'cloud', name, price: perMillion(usd) })
const clouds = [cloud('expensive', 15n), cloud('cheap', 2n)]

test.each([
  ['the cheapest cloud', clouds, null, ['cheap']],
  ['a local server before clouds', [...clouds, offerOf({ name: 'mine', price: perMillion(90n) })], null, ['mine']],
  ['the cloud that the operator names', clouds, ['expensive'], ['expensive']],
  ['none, if the operator names none', clouds, [], []],
])('the reference is %s', async (_, servers, references, names) => {
  const world = await auditWorld(database, { servers, references, answer: talker() })
  await world.audit(6)
  expect([...new Set(world.asked().map(({ server }) => server.endpoint.name))]).toEqual(names)
})

test.each([
  ['another one takes its place', [offerOf({ name: 'mine' }), ...clouds], 'cheap'],
  ['audits wait for the only one', [offerOf({ name: 'mine' })], 'mine'],
])('while a reference is away, %s', async (_, servers, name) => {
  const world = await auditWorld(database, { servers, away: 'mine', answer: talker() })
  await world.audit(6)
  expect([...new Set(world.asked().map(({ server }) => server.endpoint.name))]).toEqual([name])
})

test.each([
  ['the same passes', 'The tide turns twice a day here.', 1, 20],
  ['something else does not', 'No.', 0, 0],
])('32 answers are an audit, and a hoster that answers %s', async (_, text, least, most) => {
  const talk = talker()
  const world = await auditWorld(database, {
    manners: [{ fields: {}, gapMs: 9_000 }],
    answer({ server, body }) {
      if (server.endpoint.kind === 'hoster') return text
      // What the reference writes for the gateway is another text each time.
      return world.sent().some(({ body: { messages } }) => messages.at(-1)!.content === body.messages.at(-1)!.content)
        ? `The tide turns twice a day ${world.requests.length % 2 === 0 ? 'here' : 'there'}.`
        : talk()
    },
  })
  await world.audit(150)
  const { rows } = await database.pool.query<{ passes: number }>(
    'SELECT passes FROM hoster_comparison WHERE hoster_id = $1',
    [world.hosterId],
  )
  expect(rows[0]!.passes).toBeGreaterThanOrEqual(least)
  expect(rows[0]!.passes).toBeLessThanOrEqual(most)
  expect(new Set((await world.audits()).map(({ kind }) => kind))).toEqual(new Set(['shadow']))
})
