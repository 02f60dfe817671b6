import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'

// GET /v1/models and /v1/models/{id} answer each vendor's SDK in its own form, with limits and names to show.

const app = useTestApp({
  offers: ['claude-x', 'meta/llama'].map(modelId => {
    const offer = testOffer('http://127.0.0.1:9/v1', { modelId })
    return { ...offer, endpoint: { ...offer.endpoint, endpointId: modelId.replace('/', '-') } }
  }),
})
const customer = useCustomer(app)

test("Anthropic's SDK", async () => {
  const client = new Anthropic({ apiKey: customer.key, authToken: null, baseURL: app.url, maxRetries: 0 })
  const ids = []
  for await (const model of client.models.list()) ids.push(model.id)
  expect(ids).toEqual(['claude-x', 'meta/llama', 'claude/meta/llama'])
  const shown = { type: 'model', display_name: 'meta/llama', max_input_tokens: 32_768, max_tokens: 8_192 }
  expect(await client.models.retrieve('meta/llama')).toMatchObject({ ...shown, id: 'meta/llama' })
  expect(await client.models.retrieve('claude/meta/llama')).toMatchObject({ ...shown, id: 'claude/meta/llama' })
  const missing = client.models.retrieve('none').catch((error: unknown) => error)
  expect(await missing).toMatchObject({ status: 404, error: { type: 'error', error: { type: 'not_found_error' } } })
})

test.each(['v1', 'v1beta'])("Google's SDK at /%s", async apiVersion => {
  const httpOptions = { baseUrl: app.url, apiVersion }
  const client = new GoogleGenAI({ apiKey: customer.key, vertexai: false, httpOptions })
  const names = []
  for await (const model of await client.models.list({ config: { pageSize: 1 } })) names.push(model.name)
  expect(names).toEqual(['models/claude-x', 'models/meta/llama'])
  expect(await client.models.get({ model: 'meta/llama' })).toMatchObject({
    name: 'models/meta/llama',
    displayName: 'meta/llama',
    inputTokenLimit: 32_768,
    outputTokenLimit: 8_192,
  })
  const missing = client.models.get({ model: 'none' }).catch((error: unknown) => error)
  expect(await missing).toMatchObject({ status: 404, message: expect.stringContaining('NOT_FOUND') })
})

test("OpenAI's SDK", async () => {
  const client = new OpenAI({ apiKey: customer.key, baseURL: `${app.url}/v1`, maxRetries: 0 })
  const ids = []
  for await (const model of client.models.list()) ids.push(model.id)
  expect(ids).toEqual(['claude-x', 'meta/llama'])
  expect(await client.models.retrieve('meta/llama')).toMatchObject({ id: 'meta/llama', object: 'model' })
})
