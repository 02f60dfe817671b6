import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'
import { afterAll, expect, test, vi } from 'vitest'
import { WAIT_OPTIONS } from '../harness/patience.ts'
import { countingFetch, useClientWorld } from './client-world.ts'

let nowMs = Date.now()
const world = useClientWorld({ clock: { epochMs: () => nowMs, monotonicMs: () => performance.now() } })
afterAll(() => vi.restoreAllMocks())

// That is when all ask who have waited for a minute to end, and only as many as there are requests in the next are served.
test('a refusal in the first second of a minute is waited for by the AI SDK, which takes 60 s for too long', async () => {
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
  const asked = generateText({ model: provider('test-model'), prompt: 'Hello', abortSignal: leaving.signal })
  const ended = expect(asked).rejects.toThrow()
  await vi.waitFor(() => expect(timers.mock.calls.map(([, ms]) => ms)).toContain(59_999), WAIT_OPTIONS)
  expect(counter.calls).toBe(1)
  leaving.abort()
  await ended
})

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
