import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'
import { afterAll, expect, test, vi } from 'vitest'
import { countingFetch, useClientWorld } from '../clients/client-world.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'

let nowMs = Date.now()
const world = useClientWorld({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })
afterAll(() => vi.restoreAllMocks())

// Went wrong: the AI SDK ignores a Retry-After of 60 s, sent in the first second of a minute, and retried within seconds (fixed in 5294b01).
test('the AI SDK waits for retry-after-ms after a 429 in the first second of a minute', async () => {
  const { gateway } = world
  const customer = await gateway.customer({ limits: { requestsPerMinute: 1 } })
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  const refused = await gateway.chat(customer, hello)
  nowMs += (Number(refused.headers.get('retry-after')) - 60) * 1000

  const { headers } = await gateway.chat(customer, hello)
  expect([headers.get('retry-after'), headers.get('retry-after-ms')]).toEqual(['60', '59999'])
  const timers = vi.spyOn(globalThis, 'setTimeout')
  const counter = countingFetch()
  const provider = createOpenAICompatible({
    name: 'switchyard',
    apiKey: customer.key,
    baseURL: world.baseUrl,
    fetch: counter.fetch,
  })
  const leaving = new AbortController()
  const pending = generateText({ model: provider('test-model'), prompt: 'Hello', abortSignal: leaving.signal })
  const ended = expect(pending).rejects.toThrow()
  await vi.waitFor(() => expect(timers.mock.calls.map(([, ms]) => ms)).toContain(59_999), WAIT_OPTIONS)
  expect(counter.calls).toBe(1)
  leaving.abort()
  await ended
})

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
