import { expect, test } from 'vitest'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'chat' }),
    testOffer(upstream.baseUrl, { modelId: 'unknown', features: new Set() }),
    testOffer(upstream.baseUrl, { modelId: 'vectors', features: new Set(['embeddings']), contextTokens: 64 }),
  ],
}))

async function refusal(customer: TestCustomer, path: string, body: object) {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const { error } = (await response.json()) as { error: { code: string; param: string | null; message: string } }
  return { status: response.status, code: error.code, param: error.param, message: error.message }
}

type Wrong = [name: string, fields: object, param: string, code?: string]

const wrong: readonly Wrong[] = [
  ['no input', { input: undefined }, 'input', 'missing_parameter'],
  ['no model', { model: undefined }, 'model', 'missing_parameter'],
  ['an empty text', { input: '' }, 'input'],
  ['no texts', { input: [] }, 'input'],
  ['an empty text among others', { input: ['a', ''] }, 'input[1]'],
  ['no token ids', { input: [[1], []] }, 'input[1]'],
  ['a text among token ids', { input: [1, 'a'] }, 'input[1]'],
  ['a token id among texts', { input: ['a', 1] }, 'input[1]'],
  ['a negative token id', { input: [[1, -1]] }, 'input[0][1]'],
  ['an object', { input: { text: 'a' } }, 'input'],
  ['a list of objects', { input: [{ text: 'a' }] }, 'input[0]'],
  ['too many texts', { input: Array.from({ length: 2_049 }, () => 'a') }, 'input'],
  ['too many token ids', { input: Array.from({ length: 300_001 }, () => 1) }, 'input'],
  ['too much text', { input: Array.from({ length: 500 }, () => 'a'.repeat(5_000)) }, 'input'],
  ['an unknown encoding', { encoding_format: 'int8' }, 'encoding_format'],
  ['dimensions of 0', { dimensions: 0 }, 'dimensions'],
  ['auto', { model: 'auto' }, 'model'],
  ['a fallback', { fallback_models: ['chat'] }, 'fallback_models'],
  ['a wrong tier', { tier: 'fast' }, 'tier'],
  ['a wrong list of hosters', { allow_hosters: ['hoster-1'] }, 'allow_hosters[0]'],
  ['a chat model', { model: 'chat' }, 'model'],
  ['a model without declared features', { model: 'unknown' }, 'model'],
  ['a text longer than the context', { input: ['a', 'word '.repeat(200)] }, 'input', 'context_length_exceeded'],
  ['a cap below the cost of the input', { max_cost_usd: 1e-9 }, 'max_cost_usd', 'max_cost_too_low'],
]

test.each<Wrong>(wrong)('%s is refused', async (_name, fields, param, code = 'invalid_value') => {
  const customer = await gateway.customer()
  const found = await refusal(customer, '/v1/embeddings', { model: 'vectors', input: 'a', ...fields })
  expect(found).toMatchObject({ status: 400, code, param })
  expect(upstream.requests).toHaveLength(0)
  expect(await gateway.usage(customer)).toEqual([])
})

test('dimensions are refused where no server declares them', async () => {
  const customer = await gateway.customer()
  const found = await refusal(customer, '/v1/embeddings', { model: 'vectors', input: 'a', dimensions: 2 })
  expect(found).toMatchObject({
    status: 400,
    code: 'feature_not_supported',
    message: expect.stringContaining('none has dimensions'),
  })
})

test('an embedding model gets no chat, and auto does not choose it', async () => {
  const customer = await gateway.customer()
  const messages = [{ role: 'user', content: 'Hello' }]
  const named = await refusal(customer, '/v1/chat/completions', { model: 'vectors', messages })
  expect(named).toMatchObject({ status: 400, code: 'invalid_value', param: 'model' })
  expect(named.message).toBe(
    'The model `vectors` does not serve chat. GET /v1/models lists the features of each model.',
  )
  const quote = await gateway.chat(customer, { model: 'auto', messages, dry_run: true })
  const { candidates } = (await quote.json()) as { candidates: { model: string }[] }
  expect(candidates.map(({ model }) => model).sort()).toEqual(['chat', 'unknown'])
  const { data } = (await (await gateway.get(customer, '/v1/models')).json()) as { data: { id: string }[] }
  expect(data).toContainEqual(expect.objectContaining({ id: 'vectors', features: ['embeddings'] }))
})

test('a refusal for lack of credit says to shorten the input', async () => {
  const customer = await gateway.customer({ creditNanos: 10n })
  const found = await refusal(customer, '/v1/embeddings', { model: 'vectors', input: 'a ferry' })
  expect(found).toMatchObject({ status: 402, code: 'insufficient_credits', param: 'input' })
  expect(found.message).toContain('Add credit or shorten the input')
})
