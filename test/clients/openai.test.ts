import OpenAI from 'openai'
import OpenAI5 from 'openai5'
import OpenAI6 from 'openai6'
import { describe, expect, test } from 'vitest'
import type { TestApp, TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, stall, status, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import {
  constraints,
  countingFetch,
  expectConstraintsFollowed,
  expectLeftAndBilled,
  useClientWorld,
  weatherTool,
  wrongConstraints,
} from './client-world.ts'

const world = useClientWorld()

// TypeScript treats classes with private fields as different types, although the used parts have the same shape.
const versions = [
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6 as unknown as typeof OpenAI],
  ['openai 5', OpenAI5 as unknown as typeof OpenAI],
] as const

const hello = { model: 'test-model', messages: [{ role: 'user' as const, content: 'Hello' }] }
const weather = {
  model: 'test-model',
  messages: [{ role: 'user' as const, content: 'What is the weather in Bern?' }],
  tools: [{ type: 'function' as const, function: weatherTool }],
}
const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }

describe.each(versions)('%s', (_name, Client) => {
  async function setUp(options: Parameters<TestApp['customer']>[0] = {}) {
    const customer = await world.gateway.customer(options)
    return { customer, client: clientOf(customer) }
  }
  function clientOf(customer: TestCustomer, options: { maxRetries?: number; fetch?: typeof fetch } = {}) {
    return new Client({ apiKey: customer.key, baseURL: world.baseUrl, maxRetries: 0, ...options })
  }

  test('create returns text, usage, cost and id', async () => {
    // With `limits` the minute does not end during the test.
    const { client } = await setUp({ limits: { requestsPerMinute: 300 } })
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const { data, request_id, response } = await client.chat.completions.create(hello).withResponse()
    expect(data.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'Good morning' } })
    expect(data.usage).toEqual({ ...usageOf(9, 2), cost_usd: 0.000013 })
    expect(response.headers.get('x-switchyard-cost-usd')).toBe('0.000013')
    expect(data.id).toBe(`chatcmpl-${request_id}`)
    expect((await client.chat.completions.create(hello))._request_id).toMatch(/^[0-9a-f-]{36}$/)
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('299')
  })

  test.each(['', '/'])('a base URL can end in "/v1%s"', async slash => {
    const { customer } = await setUp()
    const client = new Client({ apiKey: customer.key, baseURL: `${world.baseUrl}${slash}` })
    expect((await client.chat.completions.create(hello)).choices).toHaveLength(1)
    expect((await client.models.list()).data.length).toBeGreaterThan(0)
  })

  test('a stream has no usage by default', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning' }))
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of await client.chat.completions.create({ ...hello, stream: true })) chunks.push(chunk)
    expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Good morning')
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop')
    expect(chunks.filter(chunk => 'usage' in chunk)).toEqual([])
  })

  test('include_usage adds a last chunk with usage', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const asked = { ...hello, stream: true as const, stream_options: { include_usage: true } }
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of await client.chat.completions.create(asked)) chunks.push(chunk)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { ...usageOf(9, 2), cost_usd: 0.000013 } })
    expect(chunks.slice(0, -1).every(chunk => chunk.usage === null)).toBe(true)
  })

  test('.stream() assembles the completion', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const deltas: string[] = []
    const stream = client.chat.completions.stream({ ...hello, stream_options: { include_usage: true } })
    stream.on('content', delta => deltas.push(delta))
    const completion = await stream.finalChatCompletion()
    expect(deltas.join('')).toBe('Good morning')
    expect(completion.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'Good morning' } })
    // `totalUsage` has only the fields that the SDK knows. The completion has all.
    expect(await stream.totalUsage()).toMatchObject(usageOf(9, 2))
    expect(completion.usage).toMatchObject({ ...usageOf(9, 2), cost_usd: 0.000013 })
  })

  test('.stream() assembles each choice of a stream that is cut at max_tokens', async () => {
    const { client } = await setUp()
    const part = (index: number, content: string) => ({ choices: [{ index, delta: { content }, finish_reason: null }] })
    const tooMuch = Array.from({ length: 40 }, () => part(0, 'some more words of it '))
    world.upstream.respondWith(sse([part(0, 'A '), part(1, 'B'), ...tooMuch], { ending: 'stall' }))
    const asked = { ...hello, n: 2, max_tokens: 5, stream_options: { include_usage: true } }
    const completion = await client.chat.completions.stream(asked).finalChatCompletion()
    expect(completion.choices).toMatchObject([
      { index: 0, finish_reason: 'length', message: { content: expect.stringMatching(/^A some more words/) } },
      { index: 1, finish_reason: 'length', message: { content: 'B' } },
    ])
    expect(completion.usage).toMatchObject({ completion_tokens: 10 })
  })

  test('.stream() assembles tool calls', async () => {
    const { client } = await setUp()
    const second = { id: 'call_second', name: 'get_weather', arguments: '{"place":"Thun"}' }
    world.upstream.respondWith(answer({ toolCalls: [weatherCall, second] }))
    const completion = await client.chat.completions.stream(weather).finalChatCompletion()
    expect(completion.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        tool_calls: [
          { id: 'call_weather', function: { name: 'get_weather', arguments: '{"place":"Bern"}' } },
          { id: 'call_second', function: { name: 'get_weather', arguments: '{"place":"Thun"}' } },
        ],
      },
    })
  })

  test('create calls a tool and sends its result', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ toolCalls: [weatherCall] }), answer({ text: 'It is sunny in Bern.' }))
    const first = await client.chat.completions.create(weather)
    expect(first.choices[0]?.finish_reason).toBe('tool_calls')
    const called = first.choices[0]!.message
    const result = { role: 'tool' as const, tool_call_id: called.tool_calls![0]!.id, content: 'sunny' }
    const second = await client.chat.completions.create({ ...weather, messages: [...weather.messages, called, result] })
    expect(second.choices[0]?.message.content).toBe('It is sunny in Bern.')
    expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_weather' }] },
      { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
    ])
  })

  test.each([false, true])('runTools calls a tool and sends its result, stream: %s', async stream => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ toolCalls: [weatherCall] }), answer({ text: 'It is sunny in Bern.' }))
    const places: string[] = []
    const { description, parameters } = weatherTool
    const runnable = {
      type: 'function' as const,
      function: {
        name: weatherTool.name,
        description,
        parameters,
        parse: JSON.parse,
        function({ place }: { place: string }) {
          places.push(place)
          return 'sunny'
        },
      },
    }
    const asked = { model: weather.model, messages: weather.messages, tools: [runnable] }
    const runner = stream
      ? client.chat.completions.runTools({ ...asked, stream: true })
      : client.chat.completions.runTools(asked)
    expect(await runner.finalContent()).toBe('It is sunny in Bern.')
    expect(places).toEqual(['Bern'])
  })

  test('structured outputs are forwarded and parsed', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: '{"place":"Bern"}' }))
    const response_format = {
      type: 'json_schema' as const,
      json_schema: { name: 'place', strict: true, schema: weatherTool.parameters },
    }
    const parsed = await client.chat.completions.parse({ ...hello, response_format })
    expect(world.upstream.requests.at(-1)!.body.response_format).toEqual(response_format)
    expect(parsed.choices[0]?.message.parsed).toEqual({ place: 'Bern' })
  })

  test('a stream that is left is billed for its text', async () => {
    const { client, customer } = await setUp()
    world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
    let text = ''
    for await (const chunk of await client.chat.completions.create({ ...hello, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? ''
      if (text.endsWith('three')) break
    }
    await expectLeftAndBilled(world, customer, 'one two three')
  })

  test('an aborted stream is billed for its text', async () => {
    const { client, customer } = await setUp()
    world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
    const abort = new AbortController()
    const stream = client.chat.completions.stream(hello, { signal: abort.signal })
    stream.on('content', (_delta, soFar) => {
      if (soFar.endsWith('three')) abort.abort()
    })
    await expect(stream.done()).rejects.toBeInstanceOf(Client.APIUserAbortError)
    await expectLeftAndBilled(world, customer, 'one two three')
  })

  test('a request that is aborted before its answer is free', async () => {
    const { client, customer } = await setUp()
    const handled = world.upstream.requests.length
    world.upstream.respondWith(stall())
    const abort = new AbortController()
    const asked = client.chat.completions.create(hello, { signal: abort.signal })
    await expect.poll(() => world.upstream.requests.length).toBe(handled + 1)
    abort.abort()
    await expect(asked).rejects.toBeInstanceOf(Client.APIUserAbortError)
    expect(await world.upstream.requests.at(-1)!.aborted).toBe(true)
    expect(await world.gateway.settled(customer, 1)).toMatchObject([{ outcome: 'client_gone', cost_nanos: 0n }])
  })

  test('the routing fields are extra keys of the body', async () => {
    const { client } = await setUp()
    const { data, response } = await client.chat.completions
      .create({ ...hello, model: 'cloud-model', ...constraints } as OpenAI.ChatCompletionCreateParamsNonStreaming)
      .withResponse()
    expectConstraintsFollowed(world, data.model)
    expect(response.headers.get('x-switchyard-provider')).toBe('local')
  })

  test.each(Object.entries(wrongConstraints))('an invalid %s is refused by name', async (param, value) => {
    const { client } = await setUp()
    const refused = client.chat.completions.create({ ...hello, [param]: value })
    await expect(refused).rejects.toBeInstanceOf(Client.BadRequestError)
    await expect(refused).rejects.toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value' })
    await expect(refused).rejects.toHaveProperty('param', expect.stringMatching(new RegExp(`^${param}\\b`)))
  })

  test('create returns a quote for a dry run, and a header has the max_tokens that max_cost_usd allows', async () => {
    const { client, customer } = await setUp()
    const asked = { ...hello, max_tokens: 1_000, dry_run: true } as OpenAI.ChatCompletionCreateParamsNonStreaming
    const quote: { object: string } = await client.chat.completions.create(asked)
    expect(quote).toMatchObject({ object: 'chat.completion.quote', max_tokens: 1_000, refusal: null })
    expect(quote).toHaveProperty('expected.cost_usd', expect.any(Number))
    expect(await world.gateway.usage(customer)).toEqual([])

    const capped = {
      ...hello,
      max_tokens: 1_000,
      max_cost_usd: 0.0005,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming
    const { data, response } = await client.chat.completions.create(capped).withResponse()
    const allowed = Number(response.headers.get('x-switchyard-max-tokens'))
    expect(allowed).toBeGreaterThan(100)
    expect(allowed).toBeLessThan(250)
    expect(world.upstream.requests.at(-1)!.body).toMatchObject({ max_tokens: allowed })
    expect(data.usage).toHaveProperty('cost_usd')
  })

  test('models can be listed and retrieved', async () => {
    const { client } = await setUp()
    const ids: string[] = []
    for await (const model of client.models.list()) ids.push(model.id)
    expect(ids).toEqual(['broken-model', 'cloud-model', 'test-model'])
    expect(await client.models.retrieve('test-model')).toMatchObject({ id: 'test-model', object: 'model' })
    await expect(client.models.retrieve('org/no-model')).rejects.toBeInstanceOf(Client.NotFoundError)
  })

  describe('errors', () => {
    const readable = { message: expect.any(String), requestID: expect.stringMatching(/^[0-9a-f-]{36}$/) }

    test('401', async () => {
      const client = new Client({ apiKey: 'sk-sy-wrong', baseURL: world.baseUrl })
      const refused = client.chat.completions.create(hello)
      await expect(refused).rejects.toBeInstanceOf(Client.AuthenticationError)
      await expect(refused).rejects.toMatchObject({
        ...readable,
        status: 401,
        type: 'invalid_request_error',
        code: 'invalid_api_key',
        param: null,
      })
    })

    test('402', async () => {
      const { client } = await setUp({ creditNanos: 1_000n })
      const refused = client.chat.completions.create({ ...hello, max_tokens: 100 })
      await expect(refused).rejects.toBeInstanceOf(Client.APIError)
      await expect(refused).rejects.toMatchObject({
        ...readable,
        status: 402,
        type: 'insufficient_quota',
        code: 'insufficient_credits',
        param: 'messages',
        // The error object also has the affordable max_tokens.
        error: { balance_usd: 0.000001, needed_usd: expect.any(Number), affordable_max_tokens: 0 },
      })
    })

    test('on_insufficient: clamp avoids a 402', async () => {
      const { client } = await setUp({ creditNanos: 1_000_000n })
      const refused = await client.chat.completions.create({ ...hello, max_tokens: 5_000 }).catch(error => error)
      const fits = refused.error.affordable_max_tokens
      expect(fits).toBeGreaterThan(16)
      const clamped = { ...hello, max_tokens: 5_000, on_insufficient: 'clamp' as const }
      const { data, response } = await client.chat.completions.create(clamped).withResponse()
      expect(data.object).toBe('chat.completion')
      expect(response.headers.get('x-switchyard-max-tokens')).toBe(String(fits))
    })

    test('on_insufficient: clamp avoids a 402 for a stream, which reports its cost', async () => {
      const { client } = await setUp({ creditNanos: 1_000_000n })
      world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
      const clamped = { ...hello, max_tokens: 5_000, on_insufficient: 'clamp' as const }
      const asked = { ...clamped, stream: true as const, stream_options: { include_usage: true } }
      const { data, response } = await client.chat.completions.create(asked).withResponse()
      const chunks: OpenAI.ChatCompletionChunk[] = []
      for await (const chunk of data) chunks.push(chunk)
      const allowed = Number(response.headers.get('x-switchyard-max-tokens'))
      expect(world.upstream.requests.at(-1)!.body.max_tokens).toBe(allowed)
      expect(allowed).toBeLessThan(500)
      expect(chunks.at(-1)!.usage).toMatchObject({ cost_usd: 0.000013 })
    })

    test('404', async () => {
      const { client } = await setUp()
      const refused = client.chat.completions.create({ ...hello, model: 'no-model' })
      await expect(refused).rejects.toBeInstanceOf(Client.NotFoundError)
      await expect(refused).rejects.toMatchObject({
        ...readable,
        status: 404,
        type: 'invalid_request_error',
        code: 'model_not_found',
        param: 'model',
      })
    })

    test.each([false, true])('500 is not retried, stream: %s', async stream => {
      const { customer } = await setUp()
      const counter = countingFetch()
      const client = new Client({ apiKey: customer.key, baseURL: world.baseUrl, fetch: counter.fetch })
      const failed = client.chat.completions.create({ ...hello, model: 'broken-model', stream })
      await expect(failed).rejects.toBeInstanceOf(Client.InternalServerError)
      await expect(failed).rejects.toMatchObject({
        ...readable,
        status: 500,
        type: 'server_error',
        code: 'all_hosters_failed',
        param: null,
      })
      expect(counter.calls).toBe(1)
    })

    test('a failure in the middle of a stream is an error and free', async () => {
      const { client, customer } = await setUp()
      world.upstream.respondWith(sse(streamEvents({ text: 'one two' }).slice(0, 3), { ending: 'reset' }))
      const stream = await client.chat.completions.create({ ...hello, stream: true })
      let text = ''
      const reading = (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      })()
      await expect(reading).rejects.toBeInstanceOf(Client.APIError)
      await expect(reading).rejects.toMatchObject({
        ...readable,
        type: 'upstream_error',
        code: 'stream_interrupted',
        param: null,
      })
      expect(text).toBe('one two')
      expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
    })

    test('a failure in the middle of .stream() is an error', async () => {
      const { client } = await setUp()
      world.upstream.respondWith(sse([contentChunk('one'), { error: { message: 'out of memory', code: 500 } }]))
      const failed = client.chat.completions.stream(hello).finalChatCompletion()
      await expect(failed).rejects.toBeInstanceOf(Client.APIError)
      await expect(failed).rejects.toMatchObject({ ...readable, code: 'stream_interrupted' })
    })

    test('a refusal by the model server is a BadRequestError', async () => {
      const { client } = await setUp()
      world.upstream.respondWith(
        status(400, {
          error: { message: 'top_k is too large', type: 'invalid_request_error', param: 'top_k', code: null },
        }),
      )
      const refused = client.chat.completions.create({ ...hello, ...{ top_k: 1e9 } })
      await expect(refused).rejects.toBeInstanceOf(Client.BadRequestError)
      await expect(refused).rejects.toMatchObject({ ...readable, code: 'upstream_rejected', param: 'top_k' })
    })
  })
})
