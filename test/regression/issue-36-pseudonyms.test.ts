import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// `user`, `safety_identifier` and `prompt_cache_key` reached hosters as the client wrote them.

const [first, second, cloud] = [useUpstream(), useUpstream(), useUpstream()]
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [testOffer(cloud.baseUrl, { modelId: 'cloud-model', endpoint: { kind: 'cloud' } })],
}))
const customer = useCustomer(app, { tier: 'scale' })
const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 1_000_000n }
const identifiers = {
  user: 'alice@example.com',
  safety_identifier: 'alice@example.com',
  prompt_cache_key: 'alice@example.com',
}
const messages = [{ role: 'user', content: 'Hello' }]

async function received(upstream: typeof first, model: string, sender = customer as Parameters<typeof app.chat>[0]) {
  await (await app.chat(sender, { model, max_tokens: 10, messages, ...identifiers })).arrayBuffer()
  const body = upstream.requests.at(-1)!.body as Record<string, unknown>
  return [body.user, body.safety_identifier, body.prompt_cache_key]
}

test("a hoster gets pseudonyms that are its own and the customer's own, and stay the same", async () => {
  await app.hoster({ baseUrl: first.baseUrl, models: [{ modelId: 'first-model', price }] })
  await app.hoster({ baseUrl: second.baseUrl, models: [{ modelId: 'second-model', price }] })
  const atFirst = await received(first, 'first-model')
  expect(atFirst).toEqual(Array(3).fill(expect.stringMatching(/^[\w-]{43}$/)))
  expect(await received(first, 'first-model')).toEqual(atFirst)
  const others = [
    ...(await received(second, 'second-model')),
    ...(await received(first, 'first-model', await app.customer({ tier: 'scale' }))),
  ]
  expect(new Set([...atFirst, ...others]).size).toBe(9)
  expect(JSON.stringify([first.requests, second.requests])).not.toContain('alice')
})

test.each(['/v1/responses', '/v1/completions', '/v1/messages'])('%s does not pass them on either', async path => {
  const model = `model-${path.slice(4)}`
  await app.hoster({ baseUrl: first.baseUrl, models: [{ modelId: model, price, features: ['chat', 'completions'] }] })
  const bodies = {
    '/v1/responses': { input: 'Hello', ...identifiers },
    '/v1/completions': { prompt: 'Hello', max_tokens: 10, user: identifiers.user },
    '/v1/messages': { messages, max_tokens: 10, metadata: { user_id: identifiers.user } },
  }
  const sent = first.requests.length
  const response = await fetch(`${app.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...bodies[path as keyof typeof bodies] }),
  })
  await response.arrayBuffer()
  expect(first.requests.length).toBeGreaterThan(sent)
  expect(JSON.stringify(first.requests.slice(sent))).not.toContain('alice')
})

test('a cloud gets what the client sent', async () => {
  expect(await received(cloud, 'cloud-model')).toEqual(Object.values(identifiers))
})
