import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import type { Offer } from '../../src/domain/offer.ts'
import { auditEndpoint } from '../../src/trust/audits/audit-hoster.ts'
import { createRecentManners } from '../../src/trust/audits/request-samples.ts'
import { createSharedRequests } from '../../src/trust/audits/shared-requests.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { offerOf } from '../supply/random-market.ts'
import { createHoster, NOW_MS } from './trust-world.ts'

const database = useTestDatabase()
const perMillion = (usd: bigint) => ({ inputPicoPerToken: usd * 1_000_000n, outputPicoPerToken: usd * 1_000_000n })
const cloud = (name: string, usd: bigint) => offerOf({ kind: 'cloud', name, price: perMillion(usd) })
const clouds = [cloud('expensive', 15n), cloud('cheap', 2n)]

const clock = { epochMs: () => NOW_MS, monotonicMs: () => NOW_MS }

/** Audits a hoster, and returns the own servers that were asked too, with the comparisons that it has passed. */
async function audit(
  own: readonly Offer[],
  {
    references = null,
    times = 12,
    swaps = false,
  }: { references?: readonly string[] | null; times?: number; swaps?: boolean } = {},
) {
  const { hosterId, endpointId } = await createHoster(database)
  const hosted = offerOf({ kind: 'hoster', hosterId, name: endpointId })
  const asked = new Set<string>()
  const deps = {
    pool: database.pool,
    clock,
    random: createRandom(3).next,
    offers: () => [hosted, ...own],
    references,
    ownCanaries: [],
    shared: createSharedRequests(clock),
    manners: createRecentManners(() => 0),
    relatedCustomers: async () => new Set<string>(),
    async ask({ endpoint }: Offer) {
      if (endpoint.kind !== 'hoster') asked.add(endpoint.name)
      const text = swaps && endpoint.kind === 'hoster' ? `zz ${randomUUID()}` : 'The same words as everywhere.'
      return { text, topTokens: [] }
    },
  }
  for (let n = 0; n < times; n++) await auditEndpoint(deps, endpointId)
  const { rows } = await database.pool.query<{ passes: number }>(
    'SELECT passes FROM hoster_comparison WHERE hoster_id = $1',
    [hosterId],
  )
  return { asked: [...asked], passes: rows[0]?.passes ?? 0 }
}

test('the cheapest cloud is the reference, after local servers, unless the operator names others', async () => {
  expect((await audit(clouds)).asked).toEqual(['cheap'])
  expect((await audit([...clouds, offerOf({ name: 'mine', price: perMillion(90n) })])).asked).toEqual(['mine'])
  expect((await audit(clouds, { references: ['expensive'] })).asked).toEqual(['expensive'])
  expect(await audit(clouds, { references: [] })).toEqual({ asked: [], passes: 0 })
})

test('a hoster with a model of the operator is soon compared, and one that answers differently does not pass', async () => {
  expect((await audit(clouds, { times: 40 })).passes).toBeGreaterThanOrEqual(5)
  expect((await audit(clouds, { times: 40, swaps: true })).passes).toBe(0)
})
