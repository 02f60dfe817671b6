import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { type ScriptedUpstream, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp
let customer: TestCustomer

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  const offer = (modelId: string, endpointId: string) =>
    testOffer(upstream.baseUrl, { modelId, endpoint: { endpointId } })
  gateway = await startTestApp({ offers: ['small', 'middle', 'large'].map(model => offer(model, `at-${model}`)) })
  customer = await gateway.customer({ key: { allowedModels: ['small', 'middle'] } })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const ask = (model: string, more: object = {}) => ({ model, messages: [{ role: 'user', content: 'Hello' }], ...more })

test('a model that the key may not use is 403 model_not_allowed, whatever the fallbacks; nobody is asked', async () => {
  for (const body of [ask('large'), ask('large', { stream: true }), ask('large', { fallback_models: ['small'] })]) {
    expect(await readError(await gateway.chat(customer, body))).toMatchObject({
      status: 403,
      type: 'permission_error',
      code: 'model_not_allowed',
      param: 'model',
      message: expect.stringContaining('`large`'),
    })
  }
  expect(upstream.requests).toHaveLength(0)
  expect((await gateway.chat(customer, ask('small'))).status).toBe(200)
  expect((await gateway.chat(await gateway.anotherKey(customer), ask('large'))).status).toBe(200)
})

test('fallbacks and auto stay among the models of the key', async () => {
  const served = async (body: object) => {
    const response = await gateway.chat(customer, body)
    return response.status === 200 ? ((await response.json()) as { model: string }).model : response.status
  }
  const asked = upstream.requests.length
  upstream.respondWith(status(500))
  expect(await served(ask('small', { fallback_models: ['large', 'middle'] }))).toBe('middle')
  const tried = upstream.requests.slice(asked).map(({ body }) => body.model)
  expect(tried).not.toContain('upstream-large')
  for (let i = 0; i < 8; i++) expect(['small', 'middle']).toContain(await served(ask('auto')))
})

test('GET /v1/models lists what the key may use; the others are 403', async () => {
  const list = (await (await gateway.get(customer, '/v1/models')).json()) as { data: { id: string }[] }
  expect(list.data.map(({ id }) => id)).toEqual(['middle', 'small'])
  expect((await gateway.get(customer, '/v1/models/small')).status).toBe(200)
  expect(await readError(await gateway.get(customer, '/v1/models/large'))).toMatchObject({
    status: 403,
    code: 'model_not_allowed',
  })
})
