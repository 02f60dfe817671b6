import { GoogleGenAI } from '@google/genai'
import { beforeAll, describe, expect, test } from 'vitest'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'vectors', features: new Set(['embeddings', 'dimensions']) }),
    testOffer(upstream.baseUrl, { modelId: 'fixed', features: new Set(['embeddings']) }),
    testOffer(upstream.baseUrl, { modelId: 'talker', features: new Set(['chat']) }),
  ],
}))
const customer = useCustomer(gateway)
beforeAll(() => upstream.always(embeddings()))

const sdkOf = ({ key }: TestCustomer) =>
  new GoogleGenAI({ apiKey: key, vertexai: false, httpOptions: { baseUrl: gateway.url } }).models
const contentOf = (text: string) => ({ parts: [{ text }] })

function post(method: string, body: object, model = 'vectors'): Promise<Response> {
  return fetch(`${gateway.url}/v1beta/models/${model}:${method}`, {
    method: 'POST',
    headers: { 'x-goog-api-key': customer.key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

describe('embedContent of the SDK', () => {
  test('gets a vector for each content, in order, and the usage', async () => {
    const config = { taskType: 'RETRIEVAL_QUERY', outputDimensionality: 8 }
    const found = await sdkOf(customer).embedContent({ model: 'vectors', contents: ['a ferry', 'a ship'], config })
    expect(found.embeddings).toHaveLength(2)
    for (const { values } of found.embeddings!) expect(values).toHaveLength(8)
    expect(found.embeddings![0]).not.toEqual(found.embeddings![1])
    const sent = upstream.requests.at(-1)!
    expect(sent.path).toBe('/v1/embeddings')
    expect(sent.body).toMatchObject({ input: ['a ferry', 'a ship'], dimensions: 8 })
    expect(sent.body).not.toHaveProperty('taskType')
  })

  test('throws the error', async () => {
    const asked = sdkOf(customer).embedContent({ model: 'unknown', contents: 'a ferry' })
    await expect(asked).rejects.toMatchObject({ status: 404, message: expect.stringContaining('model_not_found') })
  })
})

test('one content gets one vector, and the answer names what was dropped', async () => {
  const response = await post('embedContent', { content: contentOf('a ferry'), title: 'Lake', task_type: 'X' })
  expect(response.headers.get('x-switchyard-dropped-fields')).toBe('title, taskType')
  const data = (await response.json()) as { embedding: { values: number[] }; usageMetadata: { cost_usd: number } }
  expect(data).toMatchObject({ modelVersion: 'vectors', usageMetadata: { promptTokenCount: expect.any(Number) } })
  for (const number of data.embedding.values) expect(number).toBeTypeOf('number')
  expect(data.usageMetadata.cost_usd).toBe(Number(response.headers.get('x-switchyard-cost-usd')))
})

test.each<[name: string, method: string, body: object, reason: string, param: string | undefined]>([
  ['no content', 'embedContent', {}, 'missing_parameter', 'content'],
  ['an empty text', 'embedContent', { content: contentOf('') }, 'invalid_value', 'content'],
  [
    'an image',
    'embedContent',
    { content: { parts: [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }] } },
    'invalid_value',
    'content.parts[0]',
  ],
  ['no requests', 'batchEmbedContents', { requests: [] }, 'invalid_value', 'requests'],
  [
    'another model',
    'batchEmbedContents',
    { requests: [{ model: 'models/other', content: contentOf('a') }] },
    'invalid_value',
    'requests[0].model',
  ],
  [
    'two lengths',
    'batchEmbedContents',
    { requests: [{ content: contentOf('a') }, { content: contentOf('b'), outputDimensionality: 8 }] },
    'invalid_value',
    'requests[1].outputDimensionality',
  ],
  [
    'other models',
    'embedContent',
    { content: contentOf('a'), fallback_models: ['fixed'] },
    'invalid_value',
    'fallback_models',
  ],
])('%s is refused', async (_name, method, body, reason, param) => {
  const response = await post(method, body)
  const { error } = (await response.json()) as { error: { details: [{ reason: string; metadata: object }] } }
  expect(response.status).toBe(400)
  expect(error.details[0]).toMatchObject({ reason, metadata: { param } })
})

test('auto and models of chat are refused', async () => {
  for (const model of ['auto', 'talker']) {
    expect((await post('embedContent', { content: contentOf('a') }, model)).status).toBe(400)
  }
})

test('models list the methods', async () => {
  const headers = { 'x-goog-api-key': customer.key }
  const methodsOf = async (model: string) => {
    const response = await fetch(`${gateway.url}/v1beta/models/${model}`, { headers })
    return ((await response.json()) as { supportedGenerationMethods: string[] }).supportedGenerationMethods
  }
  expect(await methodsOf('vectors')).toEqual(['embedContent', 'batchEmbedContents'])
  expect(await methodsOf('talker')).toContain('generateContent')
})
