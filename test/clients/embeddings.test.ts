import { OpenAIEmbeddings } from '@langchain/openai'
import OpenAI from 'openai'
import OpenAI6 from 'openai6'
import { beforeAll, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { base64Of, embeddings, scriptedVector } from '../harness/scripted-embeddings.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl, { modelId: 'vectors', features: new Set(['embeddings', 'dimensions']) })],
}))
beforeAll(() => upstream.always(embeddings()))

const versions = [
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6 as unknown as typeof OpenAI],
] as const

describe.each(versions)('%s', (_name, Client) => {
  async function setUp() {
    const { key } = await gateway.customer()
    return new Client({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  }

  test.each(['float', 'base64'] as const)('decodes the vectors that it asks for by default, from %s', async form => {
    const client = await setUp()
    upstream.respondWith(embeddings({ form }))
    const { data, usage, model } = await client.embeddings.create({ model: 'vectors', input: ['a ferry', 'a ship'] })
    expect(data.map(({ embedding }) => [...embedding])).toEqual([scriptedVector(0), scriptedVector(1)])
    expect({ model, usage }).toEqual({
      model: 'vectors',
      usage: { prompt_tokens: 6, total_tokens: 6, cost_usd: 0.000006 },
    })
    expect(upstream.requests.at(-1)!.body.encoding_format).toBe('base64')
  })

  test.each(['float', 'base64'] as const)('gets %s if it asks for it', async encoding_format => {
    const client = await setUp()
    const { data } = await client.embeddings.create({ model: 'vectors', input: 'a', encoding_format, dimensions: 2 })
    const vector = scriptedVector(0, 2)
    expect(data[0]!.embedding).toEqual(encoding_format === 'float' ? vector : base64Of(vector))
  })

  test('raises the errors of the gateway', async () => {
    const client = await setUp()
    await expect(client.embeddings.create({ model: 'vectors', input: '' })).rejects.toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'input',
    })
  })
})

test('LangChain embeds documents in batches', async () => {
  const { key } = await gateway.customer()
  const model = new OpenAIEmbeddings({
    model: 'vectors',
    apiKey: key,
    batchSize: 2,
    configuration: { baseURL: `${gateway.url}/v1` },
  })
  const vectors = await model.embedDocuments(['a ferry', 'a ship', 'a lake'])
  expect(vectors).toEqual([scriptedVector(0), scriptedVector(1), scriptedVector(0)])
  expect(await model.embedQuery('a boat')).toEqual(scriptedVector(0))
})
