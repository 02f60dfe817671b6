import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { ApiError, FunctionCallingConfigMode, GoogleGenAI } from '@google/genai'
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai'
import { describe, expect, test } from 'vitest'
import { expectLeftAndBilled, useClientWorld, useUpRequests, weatherTool } from '../clients/client-world.ts'
import type { TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, status, usageOf } from '../harness/scripted-upstream.ts'

let log = ''
const world = useClientWorld({
  onLog: line => {
    log += line
  },
})
const hello = { model: 'test-model', contents: 'Hello' }
const weather = {
  name: weatherTool.name,
  description: weatherTool.description,
  parametersJsonSchema: weatherTool.parameters,
}

const clientOf = ({ key }: TestCustomer, apiVersion = 'v1beta') =>
  new GoogleGenAI({ apiKey: key, vertexai: false, httpOptions: { baseUrl: world.gateway.url, apiVersion } })
async function setUp(options: Parameters<typeof world.gateway.customer>[0] = {}) {
  const customer = await world.gateway.customer(options)
  return { customer, client: clientOf(customer) }
}
const lastBody = () => world.upstream.requests.at(-1)!.body
const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]

interface Posting {
  readonly customer?: TestCustomer
  readonly body?: object | string
  readonly headers?: Record<string, string>
}

function post(path: string, { customer, body = { contents }, headers }: Posting = {}): Promise<Response> {
  return fetch(`${world.gateway.url}${path}`, {
    method: 'POST',
    headers: {
      ...(customer && { 'x-goog-api-key': customer.key }),
      'content-type': 'application/json',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

const thrownBy = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )

describe('a whole answer', () => {
  test.each(['v1beta', 'v1'])('has the text and the billed usage, at %s', async apiVersion => {
    const { customer } = await setUp()
    const usage = {
      ...usageOf(9, 5),
      prompt_tokens_details: { cached_tokens: 4 },
      completion_tokens_details: { reasoning_tokens: 3 },
    }
    world.upstream.respondWith(answer({ text: 'Good morning', usage }))
    const response = await clientOf(customer, apiVersion).models.generateContent(hello)
    expect(response.text).toBe('Good morning')
    expect(response.candidates).toMatchObject([{ finishReason: 'STOP' }])
    expect(response.modelVersion).toBe('test-model')
    expect(response.usageMetadata).toMatchObject({
      promptTokenCount: 9,
      cachedContentTokenCount: 4,
      candidatesTokenCount: 2,
      thoughtsTokenCount: 3,
      totalTokenCount: 14,
    })
    const [row] = await world.gateway.settled(customer, 1)
    expect(row).toMatchObject({ input_tokens: 9, output_tokens: 5 })
  })

  test('has its cost, and the id and the headers of any answer', async () => {
    const { customer } = await setUp()
    world.upstream.respondWith(answer({ text: 'Hi', usage: usageOf(9, 2) }))
    const body = { contents, safetySettings: [{ category: 'X' }], generationConfig: { mediaResolution: 'LOW' } }
    const response = await post('/v1beta/models/test-model:generateContent', { customer, body })
    const json = (await response.json()) as { responseId: string; usageMetadata: object }
    expect(json.usageMetadata).toMatchObject({ cost_usd: 0.000013 })
    expect(json.responseId).toBe(response.headers.get('x-request-id'))
    expect(response.headers.get('x-switchyard-cost-usd')).toBe('0.000013')
    const dropped = response.headers.get('x-switchyard-dropped-fields')!.split(', ')
    expect(dropped).toEqual(expect.arrayContaining(['safetySettings', 'generationConfig.mediaResolution']))
    expect(lastBody()).not.toHaveProperty('safetySettings')
  })

  test('is a quote with dry_run', async () => {
    const { customer } = await setUp()
    const body = { contents, dry_run: true }
    const response = await post('/v1beta/models/test-model:generateContent', { customer, body })
    expect([response.status, await response.json()]).toMatchObject([200, { object: 'chat.completion.quote' }])
  })

  test('is repeated for an Idempotency-Key, which names the model too', async () => {
    const { customer } = await setUp()
    const headers = { 'idempotency-key': 'order-1' }
    const send = (path: string) => post(path, { customer, headers })
    const first = await send('/v1beta/models/test-model:generateContent')
    const again = await send('/v1/models/test-model:generateContent')
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(await again.text()).toBe(await first.text())
    expect((await send('/v1beta/models/cloud-model:generateContent')).status).toBe(422)
    expect((await send('/v1beta/models/test-model:streamGenerateContent')).status).toBe(422)
  })
})

describe('a stream', () => {
  test('has the same answer', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    let text = ''
    let last: object = {}
    for await (const chunk of await client.models.generateContentStream(hello)) {
      text += chunk.text ?? ''
      last = chunk
    }
    expect(text).toBe('Good morning')
    expect(last).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 2 },
    })
  })

  test.each(['reset', 'done'] as const)('is one JSON array without alt=sse (%s)', async ending => {
    const { customer } = await setUp()
    world.upstream.respondWith(
      ending === 'reset' ? sse([contentChunk('Good')], { ending }) : answer({ text: 'Good', usage: usageOf(9, 2) }),
    )
    const headers = { 'idempotency-key': 'stream-1' }
    const send = () => post('/v1beta/models/test-model:streamGenerateContent', { customer, headers })
    const response = await send()
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    const text = await response.text()
    const list = JSON.parse(text) as { candidates?: { content: { parts: { text: string }[] } }[] }[]
    expect(list[0]!.candidates![0]!.content.parts).toEqual([{ text: 'Good' }])
    if (ending === 'reset') {
      expect(list.at(-1)).toMatchObject({ error: { code: 500, details: [{ reason: 'stream_interrupted' }] } })
      return
    }
    expect(list.at(-1)).toMatchObject({ usageMetadata: { totalTokenCount: 11 } })
    const again = await send()
    expect([again.headers.get('idempotent-replayed'), await again.text()]).toEqual(['true', text])
  })

  test('that breaks throws at the client, and is free', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good')], { ending: 'reset' }))
    const read = async () => {
      for await (const _ of await client.models.generateContentStream(hello));
    }
    expect(String(await thrownBy(read()))).toContain('stopped before the answer was complete')
    const [row] = await world.gateway.settled(customer, 1)
    expect(row!.cost_nanos).toBe(0n)
  })

  test('that the client leaves is billed for what it got', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good '), contentChunk('morning')], { ending: 'stall' }))
    const abort = new AbortController()
    const read = async () => {
      let text = ''
      const config = { abortSignal: abort.signal }
      for await (const chunk of await client.models.generateContentStream({ ...hello, config })) {
        text += chunk.text ?? ''
        if (text === 'Good morning') abort.abort()
      }
    }
    await thrownBy(read())
    await expectLeftAndBilled(world, customer, 'Good morning')
  })
})

test('the AI SDK reads answers, streams and tool calls', async () => {
  const { customer } = await setUp()
  const google = createGoogleGenerativeAI({ apiKey: customer.key, baseURL: `${world.gateway.url}/v1beta` })
  const model = google('test-model')
  world.upstream.respondWith(
    answer({ text: 'Good morning', usage: usageOf(9, 2) }),
    answer({ text: 'Good morning', usage: usageOf(9, 2) }),
    answer({ toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{"place":"Bern"}' }], text: '' }),
    answer({ text: '12 degrees' }),
  )
  const whole = await generateText({ model, prompt: 'Hello', maxRetries: 0 })
  expect([whole.text, whole.usage.inputTokens, whole.usage.outputTokens]).toEqual(['Good morning', 9, 2])
  expect(await streamText({ model, prompt: 'Hello', maxRetries: 0 }).text).toBe('Good morning')
  const inputSchema = jsonSchema<{ place: string }>(weatherTool.parameters)
  const tools = { get_weather: tool({ inputSchema, execute: ({ place }) => `12 degrees in ${place}` }) }
  const looped = await generateText({ model, prompt: 'Hello', tools, stopWhen: isStepCount(2), maxRetries: 0 })
  expect(looped.text).toBe('12 degrees')
  expect(lastBody().messages!.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 'call_1' })
  const poor = await world.gateway.customer({ creditNanos: 1_000n })
  const refused = createGoogleGenerativeAI({ apiKey: poor.key, baseURL: `${world.gateway.url}/v1beta` })
  const error = await thrownBy(generateText({ model: refused('test-model'), prompt: 'Hello' }))
  expect(error).toMatchObject({ statusCode: 402, isRetryable: false })
})

test.each([false, true])('a tool call and its result make two turns (thoughts shown: %s)', async includeThoughts => {
  const { client } = await setUp()
  const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"place":"Bern"}' } }
  const message = { role: 'assistant', content: null, reasoning_content: 'Ask the tool.', tool_calls: [call] }
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }]
  world.upstream.respondWith(status(200, { object: 'chat.completion', choices, usage: usageOf(9, 5) }))
  const config = {
    tools: [{ functionDeclarations: [weather] }],
    toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
    thinkingConfig: { includeThoughts },
  }
  const first = await client.models.generateContent({ ...hello, config })
  expect(first.functionCalls).toEqual([{ id: 'call_1', name: 'get_weather', args: { place: 'Bern' } }])
  const { content } = first.candidates![0]!
  expect(content!.parts!.some(({ thought }) => thought === true)).toBe(includeThoughts)
  // Gemini CLI sends no thoughts back.
  const parts = content!.parts!.filter(({ thought }) => thought !== true)
  expect(parts.at(-1)!.thoughtSignature).toEqual(expect.any(String))
  const result = { id: 'call_1', name: 'get_weather', response: { output: '12 degrees' } }
  await client.models.generateContent({
    ...hello,
    config,
    contents: [...contents, { role: 'model', parts }, { role: 'user', parts: [{ functionResponse: result }] }],
  })
  expect(lastBody().messages).toMatchObject([
    { role: 'user', content: 'Hello' },
    {
      role: 'assistant',
      reasoning_content: 'Ask the tool.',
      tool_calls: [{ id: 'call_1', function: { name: 'get_weather' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: '12 degrees' },
  ])
})

describe('a key', () => {
  test('may stand in the query, which Google accepts too', async () => {
    const { customer } = await setUp()
    const path = '/v1beta/models/test-model:generateContent'
    const statusOf = async (query: string, given?: Posting) => (await post(path + query, given)).status
    expect(await statusOf(`?key=${customer.key}`)).toBe(200)
    expect(await statusOf(`?alt=json&key=${customer.key}&prettyPrint=false`)).toBe(200)
    expect(await statusOf('?key=sk-wrong')).toBe(401)
    expect(await statusOf(`?key=${customer.key}&key=${customer.key}`)).toBe(401)
    expect(await statusOf('?key=sk-wrong', { customer })).toBe(200)
    expect(await statusOf('', { headers: { authorization: `Bearer ${customer.key}` } })).toBe(200)
    expect((await fetch(`${world.gateway.url}/v1beta/models?key=${customer.key}`)).status).toBe(200)
    // Elsewhere, keys in addresses stay refused.
    expect((await fetch(`${world.gateway.url}/v1/models?key=${customer.key}`)).status).toBe(401)
  })

  test('in the query is in no log', async () => {
    const { customer } = await setUp()
    await post(`/v1beta/models/broken-model:generateContent?key=${customer.key}`)
    await post(`/v1beta/models/no-such:predict?key=${customer.key}`)
    expect(log).toContain('generation request failed')
    expect(log).not.toContain(customer.key)
  })
})

describe('errors', () => {
  test('have the form of Google, also before the body is read', async () => {
    const { customer } = await setUp()
    const whole = '/v1beta/models/test-model:generateContent'
    const refusals = [
      await post(whole),
      await post(whole, { customer, body: '{' }),
      await post(whole, { customer, body: {} }),
      await post(whole, { customer, body: { contents, cachedContent: 'cachedContents/1' } }),
      await post('/v1/models/unknown:generateContent', { customer }),
      await post('/v1beta/models/test-model:predict', { customer }),
      await fetch(`${world.gateway.url}${whole}`, { headers: { 'x-goog-api-key': customer.key } }),
      await post('/v1beta/nothing', { customer }),
      await post(whole, { customer, headers: { 'content-type': 'text/plain' } }),
    ]
    const found = await Promise.all(
      refusals.map(async response => {
        const { error } = (await response.json()) as {
          error: Record<string, unknown> & { details: { reason: string }[] }
        }
        expect(error.code).toBe(response.status)
        return [error.code, error.status, error.details[0]!.reason]
      }),
    )
    expect(found).toEqual([
      [401, 'UNAUTHENTICATED', 'invalid_api_key'],
      [400, 'INVALID_ARGUMENT', 'invalid_json'],
      [400, 'INVALID_ARGUMENT', 'missing_parameter'],
      [400, 'INVALID_ARGUMENT', 'invalid_value'],
      [404, 'NOT_FOUND', 'model_not_found'],
      [404, 'NOT_FOUND', 'not_found'],
      [404, 'NOT_FOUND', 'model_not_found'],
      [404, 'NOT_FOUND', 'not_found'],
      [415, 'INVALID_ARGUMENT', 'unsupported_media_type'],
    ])
  })

  test('are those of the SDK', async () => {
    const { client } = await setUp({ creditNanos: 1_000n })
    const poor = await thrownBy(client.models.generateContent(hello))
    expect(poor).toBeInstanceOf(ApiError)
    expect(poor).toMatchObject({ status: 402, message: expect.stringContaining('insufficient_credits') })
  })

  test('of the daily limit name a time at which Gemini CLI stops', async () => {
    const { customer } = await setUp()
    await useUpRequests(world, customer, 'day')
    const response = await post('/v1beta/models/test-model:generateContent', { customer })
    const { error } = (await response.json()) as { error: { details: object[] } }
    expect(response.status).toBe(429)
    expect(error.details[1]).toEqual({
      '@type': 'type.googleapis.com/google.rpc.RetryInfo',
      retryDelay: `${response.headers.get('retry-after')}s`,
    })
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(300)
  })
})

test('hostile bodies get 400', async () => {
  const { customer } = await setUp()
  const part = (value: object) => ({ contents: [{ parts: [value] }] })
  const hostile = [
    `{"contents":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    { contents: Array.from({ length: 9_000 }, () => ({ parts: [{ text: 'x' }] })) },
    { contents: [{ parts: Array.from({ length: 3_000 }, () => ({ text: 'x' })) }] },
    part({ inlineData: { mimeType: 'image/png', data: 'not base64!' } }),
    part({ fileData: { fileUri: 'http://127.0.0.1/secret' } }),
    part({ functionResponse: { name: 'a', response: 'text' } }),
    { contents, tools: [{ functionDeclarations: Array.from({ length: 2_000 }, () => ({ name: 'a' })) }] },
    { contents, generationConfig: { candidateCount: 100 } },
  ]
  for (const body of hostile) {
    const { status } = await post('/v1beta/models/test-model:generateContent', { customer, body })
    expect([JSON.stringify(body).slice(0, 80), status]).toEqual([expect.any(String), 400])
  }
})

test('countTokens counts without a charge', async () => {
  const { customer, client } = await setUp()
  const before = world.upstream.requests.length
  const { totalTokens: fewer } = await client.models.countTokens(hello)
  const body = { generateContentRequest: { model: 'models/test-model', contents, systemInstruction: contents[0] } }
  const response = await post('/v1beta/models/test-model:countTokens', { customer, body })
  const { totalTokens } = (await response.json()) as { totalTokens: number }
  expect(fewer).toBeGreaterThan(0)
  expect(totalTokens).toBeGreaterThan(fewer!)
  expect(world.upstream.requests).toHaveLength(before)
  expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  expect(await thrownBy(client.models.countTokens({ ...hello, model: 'unknown' }))).toMatchObject({ status: 404 })
})

test('models are listed in pages', async () => {
  const { customer, client } = await setUp()
  const pager = await client.models.list({ config: { pageSize: 2 } })
  const names: (string | undefined)[] = []
  for await (const { name } of pager) names.push(name)
  expect(names).toEqual(['models/broken-model', 'models/cloud-model', 'models/test-model'])
  expect(await client.models.get({ model: 'test-model' })).toMatchObject({
    name: 'models/test-model',
    inputTokenLimit: 32_768,
    outputTokenLimit: 8_192,
  })
  expect(await thrownBy(client.models.get({ model: 'unknown' }))).toMatchObject({ status: 404 })
  const limited = await world.gateway.anotherKey(customer, { allowedModels: ['test-model'] })
  const { page } = await clientOf(limited).models.list()
  expect(page.map(({ name }) => name)).toEqual(['models/test-model'])
})
