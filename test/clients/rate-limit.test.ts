import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOpenAI } from '@langchain/openai'
import { APICallError, generateText, RetryError } from 'ai'
import OpenAI, { RateLimitError } from 'openai'
import OpenAI5 from 'openai5'
import OpenAI6 from 'openai6'
import { describe, expect, test } from 'vitest'
import { countingFetch, fastClock, useClientWorld, useUpRequests } from './client-world.ts'

const world = useClientWorld({ clock: fastClock })

async function setUp(used: 'minute' | 'day' = 'minute') {
  const { key: apiKey, ...customer } = await world.gateway.customer()
  await useUpRequests(world, { key: apiKey, ...customer }, used)
  const counter = countingFetch()
  return { counter, apiKey, connection: { apiKey, baseURL: world.baseUrl, fetch: counter.fetch } }
}

const versions = [
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6 as unknown as typeof OpenAI],
  ['openai 5', OpenAI5 as unknown as typeof OpenAI],
] as const
const hello = { model: 'test-model', messages: [{ role: 'user' as const, content: 'Hello' }] }
const readable = { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null }
const requestId = expect.stringMatching(/^[0-9a-f-]{36}$/)

// Concurrent, since these tests mostly wait for Retry-After.
describe.concurrent.each(versions)('%s', (_name, Client) => {
  test('a 429 has Retry-After', async () => {
    const { counter, connection } = await setUp()
    const refused = new Client({ ...connection, maxRetries: 0 }).chat.completions.create(hello)
    const error = await refused.catch(error => error)
    expect(error).toBeInstanceOf(Client.RateLimitError)
    expect(error).toMatchObject({ ...readable, requestID: requestId, message: expect.stringContaining('per minute') })
    expect(error.headers.get('retry-after')).toBe('1')
    expect(counter.calls).toBe(1)
  })

  test('a 429 is retried twice by default, after Retry-After', async () => {
    const { counter, connection } = await setUp()
    const refused = new Client(connection).chat.completions.create(hello)
    await expect(refused).rejects.toMatchObject(readable)
    expect(counter.calls).toBe(3)
  })

  test('a 429 for the day limit is not retried', async () => {
    const { counter, connection } = await setUp('day')
    const refused = new Client(connection).chat.completions.create({ ...hello, stream: true })
    await expect(refused).rejects.toBeInstanceOf(Client.RateLimitError)
    await expect(refused).rejects.toMatchObject({ status: 429, code: 'daily_limit_exceeded' })
    expect(counter.calls).toBe(1)
  })
})

describe.concurrent('AI SDK', () => {
  test('a 429 has Retry-After', async () => {
    const { counter, connection } = await setUp()
    const provider = createOpenAICompatible({ name: 'switchyard', ...connection })
    const refused = generateText({ model: provider('test-model'), prompt: 'Hello', maxRetries: 0 })
    await expect(refused).rejects.toBeInstanceOf(APICallError)
    await expect(refused).rejects.toMatchObject({
      statusCode: 429,
      isRetryable: true,
      responseHeaders: { 'retry-after': '1', 'x-request-id': requestId },
      data: { error: { type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null } },
    })
    expect(counter.calls).toBe(1)
  })

  test('a 429 is retried twice by default, after Retry-After', async () => {
    const { counter, connection } = await setUp()
    const provider = createOpenAICompatible({ name: 'switchyard', ...connection })
    const refused = generateText({ model: provider('test-model'), prompt: 'Hello' })
    await expect(refused).rejects.toBeInstanceOf(RetryError)
    await expect(refused).rejects.toMatchObject({ lastError: { statusCode: 429 } })
    expect(counter.calls).toBe(3)
  })
})

describe.concurrent('LangChain', () => {
  async function modelOf(maxRetries: number, used: 'minute' | 'day' = 'minute') {
    const { counter, apiKey, connection } = await setUp(used)
    const configuration = { baseURL: connection.baseURL, fetch: connection.fetch }
    return { counter, model: new ChatOpenAI({ model: 'test-model', apiKey, maxRetries, configuration }) }
  }

  test('a 429 has Retry-After', async () => {
    const { counter, model } = await modelOf(0)
    const refused = model.invoke('Hello')
    await expect(refused).rejects.toBeInstanceOf(RateLimitError)
    await expect(refused).rejects.toMatchObject({
      ...readable,
      requestID: requestId,
      lc_error_code: 'MODEL_RATE_LIMIT',
    })
    await expect(refused).rejects.toHaveProperty('retryAfterMs', 1_000)
    expect(counter.calls).toBe(1)
  })

  test('a 429 is retried maxRetries times', async () => {
    const { counter, model } = await modelOf(1)
    await expect(model.invoke('Hello')).rejects.toMatchObject(readable)
    expect(counter.calls).toBe(2)
  })

  test('a 429 for the day limit is not retried, since Retry-After is too long for LangChain', async () => {
    const { counter, model } = await modelOf(6, 'day')
    await expect(model.invoke('Hello')).rejects.toMatchObject({ status: 429, code: 'daily_limit_exceeded' })
    expect(counter.calls).toBe(1)
  })
})
