import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: ['small', 'middle', 'large'].map(modelId =>
    testOffer(upstream.baseUrl, { modelId, endpoint: { endpointId: `at-${modelId}` } }),
  ),
}))
const customer = useCustomer(gateway, { key: { allowedModels: ['small', 'middle'] } })

const ask = (model: string, more: object = {}) => ({ model, messages: [{ role: 'user', content: 'Hello' }], ...more })

test('a model that the key may not use is 403 model_not_allowed, whatever the fallbacks', async () => {
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

test('fallbacks and auto use only the models of the key', async () => {
  const served = async (body: object) => {
    const response = await gateway.chat(customer, body)
    return response.status === 200 ? ((await response.json()) as { model: string }).model : response.status
  }
  const sentBefore = upstream.requests.length
  upstream.respondWith(status(500))
  expect(await served(ask('small', { fallback_models: ['large', 'middle'] }))).toBe('middle')
  const tried = upstream.requests.slice(sentBefore).map(({ body }) => body.model)
  expect(tried).not.toContain('upstream-large')
  for (let i = 0; i < 8; i++) expect(['small', 'middle']).toContain(await served(ask('auto')))
})

test('GET /v1/models lists only the models of the key, and the others are 403', async () => {
  const list = (await (await gateway.get(customer, '/v1/models')).json()) as { data: { id: string }[] }
  expect(list.data.map(({ id }) => id)).toEqual(['middle', 'small'])
  expect((await gateway.get(customer, '/v1/models/small')).status).toBe(200)
  expect(await readError(await gateway.get(customer, '/v1/models/large'))).toMatchObject({
    status: 403,
    code: 'model_not_allowed',
  })
})
