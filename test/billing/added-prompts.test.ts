import { expect, test } from 'vitest'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { costNanos } from '../../src/base/domain/money.ts'
import { testOffer } from '../harness/app.ts'
import { answer, status, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Anthropic adds up to 804 tokens to a short prompt with tools, and some to one with a schema, and charges for them.

const upstream = useUpstream()
const offerOf = (endpointId: string, upstreamModel: string, speaks?: readonly Dialect[]) => {
  const features = new Set(['tools', 'json_schema'] as const)
  const offer = testOffer(upstream.baseUrl, { modelId: endpointId, endpoint: { endpointId }, features })
  return { ...offer, upstreamModel, ...(speaks !== undefined && { speaks }) }
}
const offers = () => [
  offerOf('native', 'sonnet', ['messages']),
  offerOf('rented', 'anthropic/claude-sonnet', ['chat']),
  offerOf('other', 'qwen'),
]
const gateway = useTestApp(() => ({ offers: offers() }))

const schema = { type: 'object', properties: {}, additionalProperties: false }
const format = { name: 'f', schema }
const tool = { name: 'f', parameters: schema }
const limit = { max_tokens: 10 }
const chat = { ...limit, messages: [{ role: 'user', content: 'Hi' }] }
const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]

interface Client {
  readonly path: (model: string) => string
  readonly tools: object
  readonly schema: object
}

const clients: Record<string, Client> = {
  chat: {
    path: () => '/v1/chat/completions',
    tools: { ...chat, tools: [{ type: 'function', function: tool }] },
    schema: { ...chat, response_format: { type: 'json_schema', json_schema: format } },
  },
  responses: {
    path: () => '/v1/responses',
    tools: { max_output_tokens: 16, input: 'Hi', tools: [{ type: 'function', ...tool }] },
    schema: { max_output_tokens: 16, input: 'Hi', text: { format: { type: 'json_schema', ...format } } },
  },
  messages: {
    path: () => '/v1/messages',
    tools: { ...chat, tools: [{ name: 'f', input_schema: schema }] },
    schema: { ...chat, output_config: { format: { type: 'json_schema', schema } } },
  },
  gemini: {
    path: model => `/v1beta/models/${model}:generateContent`,
    tools: { contents, tools: [{ functionDeclarations: [tool] }] },
    schema: {
      contents,
      generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema },
    },
  },
}
const cases = Object.keys(clients).flatMap(client =>
  ['native', 'rented', 'other'].flatMap(model => [
    { client, model, uses: 'tools' as const },
    { client, model, uses: 'schema' as const },
  ]),
)
/** More than the bytes of each body, and more than Anthropic adds. */
const REPORTED = 950

test.each(cases)('$client with $uses at $model', async ({ client, model, uses }) => {
  const customer = await gateway.customer()
  upstream.respondWith(
    model === 'native'
      ? status(200, {
          ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn' },
          content: [{ type: 'text', text: '{}' }],
          usage: { input_tokens: REPORTED, output_tokens: 5 },
        })
      : answer({ text: '{}', usage: usageOf(REPORTED, 5) }),
  )
  const body = clients[client]![uses]
  const response = await fetch(gateway.url + clients[client]!.path(model), {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...body }),
  })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  const [row] = await gateway.settled(customer, 1)
  const { price } = offers().find(({ modelId }) => modelId === model)!
  expect(row!.hold_nanos).toBeGreaterThanOrEqual(row!.cost_nanos)
  const billed = costNanos(price, REPORTED, 5)
  if (model === 'other') expect(row!.cost_nanos).toBeLessThan(billed)
  else expect(row!.cost_nanos).toBe(billed)
})
