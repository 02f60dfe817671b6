import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, status, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A hoster offered a cloud's model at 40 times its price. Clouds came after all hosters, so it got every request, also
// with `cheapest`.

const [cloud, hoster] = [useUpstream(), useUpstream()]
const usd = (perMillion: number) => ({
  inputPicoPerToken: BigInt(perMillion * 1_000_000),
  outputPicoPerToken: BigInt(perMillion * 1_000_000),
})
const gateway = useTestApp(() => ({
  // Standing is not what this test is about: the hoster counts as established.
  yaml: 'hosters: { allow_private_urls: true }\nrouting: { newcomers: { successes: 0 } }',
  offers: [testOffer(cloud.baseUrl, { modelId: 'gpt', price: usd(1), endpoint: { kind: 'cloud' } })],
}))
const customer = useCustomer(gateway, { tier: 'scale' })
beforeAll(() =>
  gateway.hoster({ baseUrl: hoster.baseUrl, trustScore: 1, models: [{ modelId: 'gpt', price: usd(40) }] }),
)
beforeEach(() => {
  cloud.always(answer({ text: 'cloud', usage: usageOf(10, 5) }))
  hoster.always(answer({ text: 'hoster', usage: usageOf(10, 5) }))
})

const chat = (body: object = {}, headers: Record<string, string> = {}) =>
  gateway.chat(
    customer,
    { model: 'gpt', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }], ...body },
    { headers },
  )

async function receiptOf(response: Response) {
  await response.arrayBuffer()
  const receipt = await gateway.get(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
  return (await receipt.json()) as { price_check: unknown; candidates: { provider: string; reason: string }[] }
}

test.each(['cheapest', 'balanced', 'fastest'])(
  '%s: the cloud answers, not the hoster at 40 times its price',
  async tier => {
    for (let count = 0; count < 10; count++) {
      const response = await chat({ tier, messages: [{ role: 'user', content: `Hello ${count}` }] })
      expect(response.headers.get('x-switchyard-provider')).toBe('cloud')
      const receipt = await receiptOf(response)
      expect(receipt.price_check).toMatchObject({ kept: true })
      expect(receipt.candidates).toMatchObject([
        { provider: 'cloud' },
        { provider: 'hoster', reason: 'more_expensive' },
      ])
    }
  },
)

test('when the cheaper server fails, the expensive one answers and the receipt says so', async () => {
  cloud.always(status(500))
  const response = await chat()
  expect(response.headers.get('x-switchyard-provider')).toBe('hoster')
  const { price_check, candidates } = await receiptOf(response)
  expect(price_check).toEqual({
    limit_percent: 150,
    cheapest_usd: expect.any(Number),
    served_usd: expect.any(Number),
    kept: false,
  })
  expect(candidates).toMatchObject([{ provider: 'cloud', reason: 'server_error' }, { provider: 'hoster' }])
})

describe('a cap on prices', () => {
  test('excludes the expensive offer from the hold and from failover', async () => {
    const quoted = async (body: object) =>
      (await (await chat({ dry_run: true, ...body })).json()) as { hold_usd: number; excluded: { reason: string }[] }
    const open = await quoted({})
    const capped = await quoted({ max_output_usd_per_million: 1 })
    expect(open.hold_usd / capped.hold_usd).toBeCloseTo(40)
    expect(capped.excluded).toMatchObject([{ reason: 'max_output_usd_per_million' }])
    cloud.always(status(500))
    expect(await readError(await chat({ max_input_usd_per_million: 39.9 }))).toMatchObject({
      code: 'all_hosters_failed',
    })
    const allowed = await chat({ max_input_usd_per_million: 40, max_output_usd_per_million: 40 })
    expect(allowed.headers.get('x-switchyard-provider')).toBe('hoster')
  })

  test('comes from a header or the key too, and the lowest holds', async () => {
    const header = { 'x-switchyard-max-output-usd-per-million': '0.5' }
    const refused = await readError(await chat({ max_output_usd_per_million: 50 }, header))
    expect(refused).toMatchObject({ status: 500, code: 'no_eligible_offer' })
    expect(refused.message).toContain('max_output_usd_per_million of a header excluded 2 offers')
    const key = await gateway.anotherKey(customer, { defaults: { max_input_usd_per_million: 0.5 } })
    const byKey = await readError(
      await gateway.chat(key, { model: 'gpt', messages: [{ role: 'user', content: 'Hello' }] }),
    )
    expect(byKey.message).toContain('max_input_usd_per_million of the API key excluded 2 offers')
  })

  test.each([0, -1, '1', 1e-7, 1_000_001])('of %s is refused', async cap => {
    const refused = await readError(await chat({ max_input_usd_per_million: cap }))
    expect(refused).toMatchObject({ status: 400, param: 'max_input_usd_per_million' })
  })
})

test('GET /v1/models shows what a request can cost at most', async () => {
  const { pricing } = (await (await gateway.get(customer, '/v1/models/gpt')).json()) as { pricing: object }
  expect(pricing).toMatchObject({
    input_usd_per_million: 1,
    at_most: { input_usd_per_million: 40, output_usd_per_million: 40 },
    first_server_percent: { cheapest: 100, balanced: 150, fastest: 300, local: 100 },
  })
})
