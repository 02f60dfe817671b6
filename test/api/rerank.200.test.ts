import { beforeAll, describe, expect, test } from 'vitest'
import { rerankSchema } from '../../src/wire/dialects/rerank/rerank-schema.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { type Behaviour, status } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

/** An answer with these scores, as vLLM sends it. */
function scores(values: readonly number[], usage: object | null = { prompt_tokens: 20, total_tokens: 20 }): Behaviour {
  return (request, response) => {
    const documents = request.body.documents as string[]
    const results = values.map((relevance_score, index) => ({
      index,
      document: { text: documents[index] },
      relevance_score,
    }))
    return status(200, { id: 'rerank-theirs', model: 'theirs', results, ...(usage && { usage }) })(request, response)
  }
}

const upstream = useUpstream()
const other = useUpstream()
const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 9_000_000n }
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'ranker', price, features: new Set(['rerank']), contextTokens: 512 }),
    testOffer(other.baseUrl, { modelId: 'second', price, features: new Set(['rerank']) }),
    testOffer(other.baseUrl, { modelId: 'chat' }),
    ...wrong.map((_, index) =>
      testOffer(upstream.baseUrl, {
        modelId: `wrong-${index}`,
        price,
        features: new Set(['rerank']),
        endpoint: { endpointId: `wrong-${index}` },
      }),
    ),
  ],
}))
beforeAll(() => {
  upstream.always(scores([0.1, 0.9, 0.5]))
  other.always(scores([0.1, 0.9, 0.5]))
})

const query = 'When does the ferry leave?'
const documents = ['A bill.', 'The ferry leaves at six.', 'A ferry.']

const rerank = (customer: TestCustomer, body: object = {}, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/rerank`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'ranker', query, documents, ...body }),
  })

// biome-ignore lint/suspicious/noExplicitAny: an answer of any status
async function read(response: Response): Promise<any> {
  return await response.json()
}

const result = (index: number, relevance_score: unknown) => ({ index, relevance_score })
const wrong: readonly (readonly [name: string, behaviour: Behaviour])[] = [
  ['no results', status(200, { object: 'list' })],
  ['an error', status(200, { error: { message: 'out of memory' } })],
  ['too few results', scores([0.1, 0.9])],
  ['an index twice', status(200, { results: [result(0, 1), result(0, 1), result(1, 1)] })],
  ['an index outside of the documents', status(200, { results: [result(0, 1), result(1, 1), result(3, 1)] })],
  ['a score that is no number', status(200, { results: [result(0, 1), result(1, null), result(2, 1)] })],
  ['results that are no objects', status(200, { results: [1, 2, 3] })],
]

describe('the answer', () => {
  test('has the best document first, and its usage and cost', async () => {
    const customer = await gateway.customer()
    const response = await rerank(customer)
    const body = await read(response)
    const id = response.headers.get('x-request-id')
    expect(body).toEqual({
      id: `rerank-${id}`,
      object: 'list',
      model: 'ranker',
      results: [result(1, 0.9), result(2, 0.5), result(0, 0.1)],
      usage: { prompt_tokens: 20, total_tokens: 20, cost_usd: 0.00002 },
    })
    expect(rerankSchema.parse(body)).toEqual(body)
    expect(response.headers.get('x-switchyard-cost-usd')).toBe('0.00002')
    expect(upstream.requests.at(-1)).toMatchObject({ path: '/v1/rerank' })
    expect(upstream.requests.at(-1)!.body).toEqual({ model: 'upstream-ranker', query, documents })
    expect(await gateway.usage(customer)).toMatchObject([
      { input_tokens: 20, output_tokens: 0, cost_nanos: 20_000n, usage_source: 'upstream', outcome: 'served' },
    ])
    expect(await read(await gateway.get(customer, `/v1/usage/requests/${id}`))).toMatchObject({ id, model: 'ranker' })
  })

  test('has as many documents as asked for, with their texts if asked for', async () => {
    const given = documents.map(text => ({ text }))
    const body = { documents: given, top_n: 2, return_documents: true }
    const { results } = await read(await rerank(await gateway.customer(), body))
    expect(results).toEqual([
      { ...result(1, 0.9), document: { text: documents[1] } },
      { ...result(2, 0.5), document: { text: documents[2] } },
    ])
    expect(upstream.requests.at(-1)!.body).toMatchObject({ documents, top_n: 2 })
  })

  test.each([
    ['no usage', null],
    ['no tokens', { prompt_tokens: 0, total_tokens: 0 }],
  ])('of a server that reports %s is billed by the count of the gateway', async (_name, usage) => {
    const customer = await gateway.customer()
    upstream.respondWith(scores([0.1, 0.9, 0.5], usage))
    const { usage: billed } = await read(await rerank(customer))
    const text = documents.map(document => `${query}\n${document}`).join('\n')
    expect(billed.prompt_tokens).toBe(countTokens(text) + 4 * documents.length)
    expect(await gateway.usage(customer)).toMatchObject([{ usage_source: 'gateway' }])
  })

  test('of a server that reports only the total is billed by it', async () => {
    upstream.respondWith(scores([0.1, 0.9, 0.5], { total_tokens: 12 }))
    expect(await read(await rerank(await gateway.customer()))).toMatchObject({ usage: { prompt_tokens: 12 } })
  })

  test.each(wrong.map(([name], index) => [name, index] as const))('with %s is not paid', async (_name, index) => {
    const customer = await gateway.customer()
    upstream.respondWith(wrong[index]![1])
    expect(await read(await rerank(customer, { model: `wrong-${index}` }))).toMatchObject({
      error: { code: 'all_hosters_failed' },
    })
    expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'unserved', cost_nanos: 0n }])
  })
})

test('a price per request is charged once, and only for one search', async () => {
  const yaml = `
endpoints:
  - name: searches
    kind: cloud
    base_url: ${upstream.baseUrl}
    models:
      - id: by-search
        price_per_million_usd: { input: 0, output: 0, per_request_usd: 0.002 }
        features: [rerank]
`
  const priced = await startTestApp({ yaml })
  try {
    const customer = await priced.customer()
    const send = async (count: number) => {
      const response = await fetch(`${priced.url}/v1/rerank`, {
        method: 'POST',
        headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'by-search', query, documents: Array(count).fill('a') }),
      })
      return await read(response)
    }
    upstream.respondWith(scores(Array(100).fill(0.5)))
    expect(await send(100)).toMatchObject({ usage: { cost_usd: 0.002 } })
    expect(await send(101)).toMatchObject({ error: { code: 'context_length_exceeded', param: 'documents' } })
    expect(await priced.usage(customer)).toMatchObject([{ cost_nanos: 2_000_000n, hold_nanos: 2_000_000n }])
  } finally {
    await priced.close()
  }
})

test('a fallback model answers when the first fails', async () => {
  upstream.respondWith(status(500, 'broken'))
  const body = await read(await rerank(await gateway.customer(), { fallback_models: ['second'] }))
  expect(body).toMatchObject({ model: 'second', results: [{ index: 1 }, { index: 2 }, { index: 0 }] })
})

test('an Idempotency-Key repeats the answer without another charge', async () => {
  const customer = await gateway.customer()
  const send = async () => (await rerank(customer, {}, { 'idempotency-key': 'one' })).text()
  const first = await send()
  expect(await send()).toBe(first)
  expect(await gateway.usage(customer)).toHaveLength(1)
})

test('dry_run returns a quote without output tokens', async () => {
  expect(await read(await rerank(await gateway.customer(), { dry_run: true }))).toMatchObject({
    max_tokens: 0,
    expected: { output_tokens: 0 },
    candidates: [{ endpoint: `endpoint-${upstream.port}` }],
  })
})

test.each<[string, object, string, string?]>([
  ['no query', { query: undefined }, 'query', 'missing_parameter'],
  ['an empty query', { query: '' }, 'query'],
  ['no documents', { documents: undefined }, 'documents', 'missing_parameter'],
  ['an empty list', { documents: [] }, 'documents'],
  ['an empty document', { documents: ['a', ''] }, 'documents[1]'],
  ['a document without text', { documents: [{ title: 'a' }] }, 'documents[0].text', 'missing_parameter'],
  ['too many documents', { documents: Array(1_001).fill('a') }, 'documents'],
  ['too much text', { query: 'a'.repeat(5_000), documents: Array(1_000).fill('a') }, 'documents'],
  ['top_n of 0', { top_n: 0 }, 'top_n'],
  ['a chat model', { model: 'chat' }, 'model'],
  [
    'a document longer than the context',
    { documents: ['word '.repeat(2_000)] },
    'documents',
    'context_length_exceeded',
  ],
])('%s is refused', async (_name, fields, param, code = 'invalid_value') => {
  const customer = await gateway.customer()
  const response = await rerank(customer, fields)
  expect(response.status).toBe(400)
  expect(await read(response)).toMatchObject({ error: { code, param } })
  expect(await gateway.usage(customer)).toEqual([])
})
