import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { answer, type ScriptedUpstream, startScriptedUpstream } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

test('a whole answer is OpenAI-shaped, billed as reported, and accounted for to the nano-USD', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(
    answer({ text: 'Hello there', usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } }),
  )
  const response = await gateway.chat(customer, hello)
  expect(response.status).toBe(200)
  const body = (await response.json()) as Record<string, unknown>
  expect(body).toMatchObject({
    id: `chatcmpl-${response.headers.get('x-request-id')}`,
    object: 'chat.completion',
    model: 'test-model',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
  })
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 11_000n - 14_000n)
  expect(await gateway.usage(customer)).toMatchObject([
    { success: true, outcome: 'served', provider: 'local', cost_nanos: 25_000n },
  ])
})

test('a stream begins with a role, ends with usage and [DONE], and is billed before its end', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ text: 'Hello there' }))
  const response = await gateway.chat(customer, { ...hello, stream: true, stream_options: { include_usage: true } })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  const text = await response.text()
  const events = text.split('\n\n').filter(Boolean)
  expect(events.at(-1)).toBe('data: [DONE]')
  const chunks = events.slice(0, -1).map(event => JSON.parse(event.slice('data: '.length)))
  expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' })
  expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Hello there')
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: expect.any(Number) } })
  expect(new Set(chunks.map(chunk => chunk.id))).toEqual(new Set([`chatcmpl-${response.headers.get('x-request-id')}`]))
  expect(await gateway.usage(customer)).toMatchObject([{ success: true, outcome: 'served', finish_reason: 'stop' }])
})
