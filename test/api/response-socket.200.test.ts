import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { describe, expect, test } from 'vitest'
import { costNanos } from '../../src/base/domain/money.ts'
import { expectLeftAndBilled, useClientWorld } from '../clients/client-world.ts'
import { testOffer } from '../harness/app.ts'
import { openResponses } from '../harness/response-socket.ts'
import { answer, sse, stall, status, streamEvents, usageOf } from '../harness/scripted-upstream.ts'

// The WebSocket of /v1/responses, as OpenAI's WebSocket mode and Open Responses 2026-04-24 describe it.

const world = useClientWorld()
const hello = { model: 'test-model', input: 'Hello' }
const sent = () => world.upstream.requests.at(-1)!.body.messages!

async function open(options: Parameters<typeof world.gateway.customer>[0] = {}) {
  const customer = await world.gateway.customer(options)
  return { customer, socket: await openResponses(world.gateway, customer) }
}

/** An answer that waits between its first text and its end. */
function heldAnswer(text: string) {
  const gate = Promise.withResolvers<void>()
  const events = streamEvents({ text, usage: usageOf(9, 2) })
  const behaviour = sse(events, { beforeEvent: index => (index === 2 ? gate.promise : undefined) })
  return { behaviour, release: () => gate.resolve() }
}

describe('a response on a WebSocket', () => {
  test('has the events of a streamed POST, one a message, and a receipt', async () => {
    const { customer, socket } = await open()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    socket.send({ type: 'response.create', ...hello })
    const events = await socket.untilEnd()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const client = new OpenAI({ apiKey: customer.key, baseURL: world.baseUrl, maxRetries: 0 })
    const posted: string[] = []
    for await (const event of await client.responses.create({ ...hello, stream: true })) posted.push(event.type)
    expect(events.map(({ type }) => type)).toEqual(posted)
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index))
    const { response } = events.at(-1)!
    expect(response.usage).toMatchObject({ input_tokens: 9, output_tokens: 2, cost_usd: 0.000013 })
    expect(events[0]).not.toHaveProperty('stream_id')
    const rows = await world.gateway.settled(customer, 2)
    expect(rows[0]).toMatchObject({ cost_nanos: 13_000n, success: true })
    expect(response.id).toBe(`resp_${rows[0]!.request_id}`)
    expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n - 26_000n)
    const receipt = await world.gateway.get(customer, `/v1/usage/requests/${response.id}`)
    expect(await receipt.json()).toMatchObject({ id: rows[0]!.request_id })
  })

  test('is counted by the metrics as the route', async () => {
    const { socket } = await open()
    await socket.ask(hello)
    expect(await world.gateway.metrics()).toMatch(/requests_total{path="\/v1\/responses",status="200"} [1-9]/)
  })

  test('obeys routing headers of the handshake and fields of the event', async () => {
    const customer = await world.gateway.customer()
    const headers = { 'x-switchyard-privacy-mode': 'true' }
    const socket = await openResponses(world.gateway, customer, { headers })
    expect(await socket.ask({ ...hello, model: 'cloud-model' })).toMatchObject({
      status: 500,
      error: { code: 'no_eligible_offer' },
    })
    expect(await socket.ask({ ...hello, model: 'cloud-model', fallback_models: ['test-model'] })).toMatchObject({
      response: { model: 'test-model' },
    })
  })

  test('that the server breaks off ends with response.failed, is free, and the connection goes on', async () => {
    const { customer, socket } = await open()
    world.upstream.respondWith(sse(streamEvents({ text: 'Good' }).slice(0, 2), { ending: 'reset' }))
    expect(await socket.ask(hello)).toMatchObject({
      type: 'response.failed',
      response: { error: { code: 'stream_interrupted' } },
    })
    expect(await socket.ask(hello)).toMatchObject({ type: 'response.completed' })
    const [failed] = await world.gateway.settled(customer, 2)
    expect(failed!.cost_nanos).toBe(0n)
  })

  test('that the client leaves is billed for what it got', async () => {
    const { customer, socket } = await open()
    world.upstream.respondWith(stall({ pieces: ['Good ', 'morning'] }))
    socket.send({ type: 'response.create', ...hello })
    for (let text = ''; text !== 'Good morning'; ) text += (await socket.next()).delta ?? ''
    socket.socket.terminate()
    await expectLeftAndBilled(world, customer, 'Good morning')
  })

  test('is what OpenAI\'s SDK expects, with and without a "stream_id"', async () => {
    const customer = await world.gateway.customer()
    const client = new OpenAI({ apiKey: customer.key, baseURL: world.baseUrl })
    const socket = new ResponsesWS(client)
    const events = socket.stream()
    const finished = async () => {
      for (;;) {
        const { value: event } = await events.next()
        if (event?.type === 'message' && event.message.type === 'response.completed') return event.message
        if (event === undefined || event.type === 'error') throw new Error('no response')
      }
    }
    world.upstream.respondWith(answer({ text: 'One.' }), answer({ text: 'Two.' }))
    socket.send({ type: 'response.create', ...hello })
    const first = await finished()
    socket.send({
      ...{ type: 'response.create', ...hello, stream_id: 'main', input: 'And then?' },
      previous_response_id: first.response.id,
    })
    const second = await finished()
    socket.close()
    expect(second).toMatchObject({ stream_id: 'main', response: { previous_response_id: first.response.id } })
    expect(sent().map(({ content }) => content)).toEqual(['Hello', 'One.', 'And then?'])
  })
})

describe('a continuation', () => {
  test('sends new items only, also after calls of tools', async () => {
    const { customer, socket } = await open()
    const tools = [{ type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} } }]
    world.upstream.respondWith(answer({ toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{}' }] }))
    const first = await socket.ask({ model: 'test-model', instructions: 'Be brief.', input: 'How warm is it?', tools })
    const [call] = first.response.output
    world.upstream.respondWith(answer({ text: 'It is 21 degrees.' }))
    const second = await socket.ask({
      model: 'test-model',
      tools,
      previous_response_id: first.response.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: '21' }],
    })
    expect(second.response).toMatchObject({ previous_response_id: first.response.id, instructions: null })
    expect(sent()).toMatchObject([
      { role: 'user', content: 'How warm is it?' },
      { role: 'assistant', tool_calls: [{ function: { name: 'get_weather', arguments: '{}' } }] },
      { role: 'tool', content: '21' },
    ])
    world.upstream.respondWith(answer({ text: 'Yes.' }))
    await socket.ask({ model: 'test-model', previous_response_id: second.response.id, input: 'Is that warm?' })
    expect(sent().slice(3)).toMatchObject([
      { role: 'assistant', content: 'It is 21 degrees.' },
      { role: 'user', content: 'Is that warm?' },
    ])
    const rows = await world.gateway.settled(customer, 3)
    const { price } = testOffer(world.upstream.baseUrl)
    const costs = rows.map(row => costNanos(price, row.input_tokens, row.output_tokens))
    expect(rows.map(row => row.cost_nanos)).toEqual(costs)
    expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n - costs.reduce((a, b) => a + b))
  })

  const notFound = { type: 'error', status: 400, error: { code: 'previous_response_not_found' } }
  const continued = (id: string, more = {}) => ({ ...hello, previous_response_id: id, ...more })

  test('of a response that this connection does not keep is refused', async () => {
    const { customer, socket } = await open()
    expect(await socket.ask(continued('resp_missing'))).toMatchObject({
      ...notFound,
      error: { ...notFound.error, type: 'invalid_request_error', param: 'previous_response_id' },
    })
    const first = await socket.ask(hello)
    const other = await openResponses(world.gateway, customer)
    expect(await other.ask(continued(first.response.id))).toMatchObject(notFound)
    await socket.ask(hello)
    expect(await socket.ask(continued(first.response.id))).toMatchObject(notFound)
  })

  const call = { type: 'function_call_output', call_id: 'call_unknown', output: '21' }
  test.each([
    ['has the output of an unknown call', { input: [call] }, 400],
    ['has an invalid item', { input: [{ type: 'message', role: 'robot', content: 'Hi' }] }, 400],
    ['names an unknown model', { model: 'unknown' }, 404],
    ['cannot be served', { model: 'broken-model' }, 500],
  ])('that %s makes the connection forget the response', async (_what, more, code) => {
    const { socket } = await open()
    const { response } = await socket.ask(hello)
    expect(await socket.ask(continued(response.id, more))).toMatchObject({ type: 'error', status: code })
    expect(await socket.ask(continued(response.id))).toMatchObject(notFound)
  })

  test('may fork the conversation into another lane, whose failure harms only itself', async () => {
    const { socket } = await open()
    const main = await socket.ask({ ...hello, stream_id: 'main' })
    const fork = continued(main.response.id, { stream_id: 'critic' })
    expect(await socket.ask({ ...fork, model: 'unknown' })).toMatchObject({ stream_id: 'critic', status: 404 })
    const critic = await socket.ask(fork)
    expect(critic).toMatchObject({ type: 'response.completed', stream_id: 'critic' })
    for (const id of [main.response.id, critic.response.id]) {
      expect(await socket.ask(continued(id, { stream_id: 'third' }))).toMatchObject({ type: 'response.completed' })
    }
  })

  test('of an answer that reached its limit goes on', async () => {
    const { socket } = await open()
    world.upstream.respondWith(answer({ text: 'Good', finishReason: 'length' }))
    const first = await socket.ask({ ...hello, max_output_tokens: 16 })
    expect(first.type).toBe('response.incomplete')
    expect(await socket.ask(continued(first.response.id))).toMatchObject({ type: 'response.completed' })
    expect(sent().map(({ content }) => content)).toEqual(['Hello', 'Good', 'Hello'])
  })
})

describe('generate: false', () => {
  test('asks no server, is free, and can be continued with or without more input', async () => {
    const { customer, socket } = await open()
    const asked = world.upstream.requests.length
    const warm = await socket.ask({ ...hello, generate: false })
    expect(warm).toMatchObject({ type: 'response.completed', response: { output: [], usage: { total_tokens: 0 } } })
    expect(world.upstream.requests).toHaveLength(asked)
    await socket.ask({ model: 'test-model', previous_response_id: warm.response.id, input: [] })
    expect(sent()).toMatchObject([{ role: 'user', content: 'Hello' }])
    expect(await world.gateway.settled(customer, 1)).toHaveLength(1)
  })

  test('may have no input yet, but not an unknown or forbidden model', async () => {
    const { socket } = await open({ key: { allowedModels: ['test-model'] } })
    const warm = await socket.ask({ model: 'test-model', input: [], generate: false })
    await socket.ask({ ...hello, previous_response_id: warm.response.id })
    expect(sent()).toMatchObject([{ role: 'user', content: 'Hello' }])
    for (const [model, code] of [
      ['unknown', 404],
      ['cloud-model', 403],
    ] as const) {
      expect(await socket.ask({ ...hello, model, generate: false })).toMatchObject({ type: 'error', status: code })
    }
  })
})

test('an error about an item names its place in the request, not in the conversation', async () => {
  const { socket } = await open()
  const { response } = await socket.ask(hello)
  const input = [
    { role: 'user', content: 'Hi' },
    { role: 'robot', content: 'Hi' },
  ]
  const refused = await socket.ask({ ...hello, previous_response_id: response.id, input })
  expect(refused).toMatchObject({ status: 400, error: { param: 'input[1].role' } })
  expect(refused.error!.message).toContain('"input[1].role" must be')
})

describe('several requests on one connection', () => {
  test('run one after another', async () => {
    const { socket } = await open()
    const first = heldAnswer('First one.')
    world.upstream.respondWith(first.behaviour, answer({ text: 'Second.' }))
    const asked = world.upstream.requests.length
    for (const input of ['one', 'two']) socket.send({ type: 'response.create', ...hello, input })
    for (let event = await socket.next(); event.delta === undefined; ) event = await socket.next()
    expect(world.upstream.requests).toHaveLength(asked + 1)
    first.release()
    const done = [await socket.untilEnd(), await socket.untilEnd()].map(events => events.at(-1)!)
    expect(done.map(({ response }) => response.output[0].content[0].text)).toEqual(['First one.', 'Second.'])
  })

  test('run at once in lanes of their own, whose events name them', async () => {
    const { customer, socket } = await open()
    const slow = heldAnswer('Slow one.')
    world.upstream.respondWith(slow.behaviour)
    socket.send({ type: 'response.create', ...hello, stream_id: 'slow' })
    for (let event = await socket.next(); event.delta === undefined; ) event = await socket.next()
    world.upstream.respondWith(answer({ text: 'Fast.' }))
    socket.send({ type: 'response.create', ...hello, stream_id: 'fast' })
    const fast = await socket.untilEnd()
    expect(fast.map(event => event.stream_id)).toEqual(fast.map(() => 'fast'))
    slow.release()
    const rest = await socket.untilEnd()
    expect(rest.at(-1)).toMatchObject({ type: 'response.completed', stream_id: 'slow' })
    expect(await world.gateway.settled(customer, 2)).toHaveLength(2)
  })

  test('beyond about 32 that wait are refused, and all others are served', async () => {
    const { customer, socket } = await open()
    const first = heldAnswer('First one.')
    world.upstream.respondWith(first.behaviour)
    for (let n = 0; n < 50; n++) socket.send({ type: 'response.create', ...hello, input: String(n) })
    const tooMany = () => socket.received.filter(({ type }) => type === 'error')
    while (tooMany().length === 0) await socket.next()
    first.release()
    while (socket.received.filter(({ type }) => type === 'response.completed' || type === 'error').length < 50) {
      await socket.next()
    }
    expect(tooMany()[0]).toMatchObject({
      ...{ status: 429, error: { code: 'too_many_concurrent_requests' } },
      headers: { 'retry-after': '1' },
    })
    expect([16, 17, 18]).toContain(tooMany().length)
    expect(await world.gateway.settled(customer, 50 - tooMany().length)).toHaveLength(50 - tooMany().length)
  })

  test('have at most 32 names of lanes', async () => {
    const { socket } = await open()
    const named = (n: number) => socket.ask({ ...hello, stream_id: `lane-${n}`, generate: false })
    for (let n = 0; n < 32; n++) expect((await named(n)).type).toBe('response.completed')
    expect(await named(32)).toMatchObject({ stream_id: 'lane-32', status: 400, error: { param: 'stream_id' } })
    expect((await named(0)).type).toBe('response.completed')
    expect((await socket.ask(hello)).type).toBe('response.completed')
  })
})

describe('errors', () => {
  test.each([
    ['no JSON', '{', { code: 'invalid_json' }],
    ['no object', '[]', { code: 'invalid_json' }],
    ['no type', JSON.stringify(hello), { code: 'missing_parameter', param: 'type' }],
    ['an unknown type', '{"type":"response.cancel"}', { code: 'invalid_value', param: 'type' }],
    ['an empty "stream_id"', '{"type":"response.create","stream_id":""}', { param: 'stream_id' }],
    ['no model', '{"type":"response.create","input":"Hi"}', { code: 'missing_parameter', param: 'model' }],
    ['background', JSON.stringify({ type: 'response.create', ...hello, background: true }), { param: 'background' }],
    ['a twofold name', '{"type":"response.create","model":"a","model":"b"}', { code: 'invalid_json' }],
  ])('%s is an error event, and the connection goes on', async (_what, text, error) => {
    const { socket } = await open()
    socket.socket.send(text)
    expect((await socket.untilEnd()).at(-1)).toMatchObject({ type: 'error', status: 400, error })
    expect(await socket.ask(hello)).toMatchObject({ type: 'response.completed' })
  })

  test('limits of money and of requests are error events with what headers say elsewhere', async () => {
    const poor = await open({ creditNanos: 1_000n })
    expect(await poor.socket.ask(hello)).toMatchObject({
      type: 'error',
      status: 402,
      error: { type: 'insufficient_quota', code: 'insufficient_credits', available_usd: 0.000001 },
    })
    const limits = { requestsPerMinute: 1, requestsPerDay: 100, dailySpendCapNanos: 1_000_000_000n }
    const limited = await open({ limits })
    await limited.socket.ask(hello)
    const refused = await limited.socket.ask(hello)
    expect(refused).toMatchObject({ status: 429, error: { code: 'rate_limit_exceeded' } })
    expect(refused.headers).toMatchObject({ 'x-ratelimit-limit-requests': '1', 'retry-after': expect.any(String) })
    expect(await world.gateway.settled(limited.customer, 1)).toHaveLength(1)
  })

  test('what Codex and HTTP send besides is ignored', async () => {
    const { socket } = await open()
    const { response } = await socket.ask({ ...hello, stream: false, stream_options: { include_obfuscation: false } })
    socket.send({ type: 'response.processed', response_id: response.id })
    expect(await socket.ask({ ...hello, previous_response_id: response.id })).toMatchObject({
      type: 'response.completed',
    })
    expect(socket.received.filter(({ type }) => type === 'error')).toEqual([])
  })

  test('an upstream that refuses is an error event', async () => {
    const { socket } = await open()
    world.upstream.respondWith(status(400, { error: { message: 'bad', type: 'invalid_request_error' } }))
    expect(await socket.ask(hello)).toMatchObject({ type: 'error', status: 400, error: { code: 'upstream_rejected' } })
  })
})
