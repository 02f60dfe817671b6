import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { autoFeatures } from '../../src/base/domain/auto-table.ts'
import { testOffer } from '../harness/app.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstreams = [useUpstream(), useUpstream()]
const [small, large] = upstreams
const weights = autoFeatures.map(name => (name === 'code' ? -10 : 0))
const tableFile = join(mkdtempSync(join(tmpdir(), 'switchyard-auto-')), 'auto.json')
writeFileSync(
  tableFile,
  JSON.stringify({
    version: 1,
    features: autoFeatures,
    models: { small: { bias: 3, weights }, large: { bias: 3, weights: weights.map(() => 0) } },
  }),
)

const app = useTestApp(() => ({
  yaml: `routing: { auto: { model_file: ${tableFile} } }`,
  offers: [
    testOffer(small!.baseUrl, { modelId: 'small' }),
    testOffer(large!.baseUrl, {
      modelId: 'large',
      price: { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n },
    }),
  ],
}))
const customer = useCustomer(app)

const ask = async (content: string, more: object = {}) => {
  const body = { model: 'auto', tier: 'cheapest', max_tokens: 20, messages: [{ role: 'user', content }], ...more }
  const response = await app.chat(customer, body)
  expect(response.status).toBe(200)
  return { id: response.headers.get('x-request-id')!, body: (await response.json()) as Record<string, unknown> }
}

const CODE = 'Fix this bug:\n```ts\nfunction add(a: number) { return a - a; }\n```'

test('a request is served by the cheapest model that is good enough for it', async () => {
  expect((await ask('Tell me about the history of bread, please.')).body.model).toBe('small')
  expect((await ask(CODE)).body.model).toBe('large')
})

describe('the choice is explained', () => {
  const why = {
    task_class: 'code',
    reason: 'lowest_cost',
    quality_floor: 0.7,
    models: [
      { model: 'large', quality: 0.9526 },
      { model: 'small', quality: expect.closeTo(0, 1) },
    ],
  }

  test('in a quote', async () => {
    const { body } = await ask(`${CODE} And a test.`, { dry_run: true })
    expect(body).toMatchObject({ auto: why, candidates: [{ model: 'large' }, { model: 'small' }] })
  })

  test('in the receipt, also why another model was not chosen', async () => {
    const { id } = await ask(`${CODE} Thank you.`)
    const receipt = await (await app.get(customer, `/v1/usage/requests/${id}`)).json()
    expect(receipt).toMatchObject({
      auto: why,
      candidates: [{ model: 'large' }, { model: 'small', reason: 'other_model' }],
    })
  })

  test('not for a model that the request names', async () => {
    expect((await ask('Hello', { model: 'small', dry_run: true })).body.auto).toBe(null)
  })
})

test('a conversation keeps its model', async () => {
  const first = { role: 'user', content: 'What should I know about the weather in Berlin?' }
  const turn = async (messages: object[]) => (await ask('', { messages })).body.model
  expect(await turn([first])).toBe('small')
  const later = [first, { role: 'assistant', content: 'It rains.' }, { role: 'user', content: CODE }]
  // The first two messages identify the conversation, so the second turn begins it.
  expect(await turn(later)).toBe('large')
  expect(
    await turn([
      ...later,
      { role: 'assistant', content: 'Done.' },
      { role: 'user', content: 'Thank you for the help.' },
    ]),
  ).toBe('large')
  const named = { prompt_cache_key: 'conversation 1' }
  expect((await ask('Tell me about the history of tea, please.', named)).body.model).toBe('small')
  expect((await ask(CODE, named)).body.model).toBe('small')
})
