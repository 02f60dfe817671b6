import { beforeAll, expect, test } from 'vitest'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'meta/llama-3.3:70b', endpoint: { name: 'ollama' } }),
    testOffer(upstream.baseUrl, { modelId: 'a b+c', endpoint: { kind: 'cloud', name: 'cloud' } }),
  ],
}))
const customer = useCustomer(gateway)

beforeAll(async () => {
  const price = { inputPicoPerToken: 250_000n, outputPicoPerToken: 1_500_000n, cacheReadPicoPerToken: 25_000n }
  await gateway.hoster({
    baseUrl: upstream.baseUrl,
    models: [{ modelId: 'meta/llama-3.3:70b', price, contextTokens: 131_072 }],
  })
})

const llama = {
  id: 'meta/llama-3.3:70b',
  object: 'model',
  created: expect.any(Number),
  owned_by: 'switchyard',
  context_length: 131_072,
  max_output_tokens: 8_192,
  pricing: {
    input_usd_per_million: 0.25,
    output_usd_per_million: 1.5,
    cache_read_usd_per_million: 0.025,
    prompt: '0.00000025',
    completion: '0.0000015',
    input_cache_read: '0.000000025',
    input_cache_write: '0.00000025',
    request: '0',
    // No price of its own: cached tokens cost the input price.
    dearest: { input_usd_per_million: 1, output_usd_per_million: 2, cache_read_usd_per_million: 1 },
    at_most: { input_usd_per_million: 1, output_usd_per_million: 2 },
    first_server_percent: { cheapest: 100, balanced: 150, fastest: 300, local: 100 },
  },
  providers: ['local', 'hoster'],
  features: ['images', 'json_schema', 'tools'],
  name: 'meta/llama-3.3:70b',
  architecture: { input_modalities: ['text', 'image'], output_modalities: ['text'] },
  supported_parameters: [
    'max_tokens',
    'max_completion_tokens',
    'temperature',
    'top_p',
    'stop',
    'seed',
    'tools',
    'tool_choice',
    'response_format',
    'structured_outputs',
  ],
  top_provider: { context_length: 131_072, max_completion_tokens: 8_192, is_moderated: false },
  demo: false,
}

test('GET /v1/models lists the models with their prices', async () => {
  const response = await gateway.get(customer, '/v1/models')
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({
    object: 'list',
    data: [expect.objectContaining({ id: 'a b+c', providers: ['cloud'], owned_by: 'cloud' }), llama],
  })
})

test('GET /v1/models/{id} accepts slashes in ids, percent-encoded or not', async () => {
  for (const id of ['meta/llama-3.3:70b', 'meta%2Fllama-3.3:70b', 'meta%2fllama-3.3%3A70b']) {
    const response = await gateway.get(customer, `/v1/models/${id}`)
    expect([id, response.status, await response.json()]).toEqual([id, 200, llama])
  }
  for (const id of ['a%20b+c', 'a%20b%2Bc']) {
    expect(await (await gateway.get(customer, `/v1/models/${id}`)).json()).toMatchObject({ id: 'a b+c' })
  }
})

test('GET /v1/models/{id} of an unknown model is 404 model_not_found', async () => {
  for (const id of ['gpt-99', 'meta', 'meta/', 'meta%252Fllama-3.3:70b', 'constructor', 'x'.repeat(2_000)]) {
    const error = await readError(await gateway.get(customer, `/v1/models/${id}`))
    expect([id.slice(0, 30), error.status, error.code]).toEqual([id.slice(0, 30), 404, 'model_not_found'])
    expect(error.message.length).toBeLessThan(300)
    expect(error.message).toContain(`The model \`${decodeURIComponent(id).slice(0, 100)}`)
  }
})

test('a model is listed once its hoster is active', async () => {
  await gateway.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'fresh-model' }] })
  const { data } = (await (await gateway.get(customer, '/v1/models')).json()) as { data: { id: string }[] }
  expect(data.map(({ id }) => id)).toContain('fresh-model')
})

test('offers that change while the gateway runs are listed, served and withdrawn; hosters stay', async () => {
  const own = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    yaml: 'hosters: { allow_private_urls: true }',
  })
  try {
    const buyer = await own.customer()
    await own.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'hosted' }] })
    const listed = async () => {
      const { data } = (await (await own.get(buyer, '/v1/models')).json()) as { data: { id: string }[] }
      return data.map(({ id }) => id).sort()
    }
    const ask = async (model: string) => {
      const response = await own.chat(buyer, { model, messages: [{ role: 'user', content: 'Hello' }] })
      await response.text()
      return response.status
    }
    upstream.always(answer())
    expect([await listed(), await ask('late')]).toEqual([['hosted', 'test-model'], 404])
    own.app.setOffers([testOffer(upstream.baseUrl), testOffer(upstream.baseUrl, { modelId: 'late' })])
    expect([await listed(), await ask('late')]).toEqual([['hosted', 'late', 'test-model'], 200])
    // A change of hosters keeps them.
    await own.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'hosted-too' }] })
    expect([await listed(), await ask('late')]).toEqual([['hosted', 'hosted-too', 'late', 'test-model'], 200])
    own.app.setOffers([testOffer(upstream.baseUrl)])
    expect([await listed(), await ask('late'), await ask('hosted')]).toEqual([
      ['hosted', 'hosted-too', 'test-model'],
      404,
      200,
    ])
  } finally {
    await own.close()
  }
})
