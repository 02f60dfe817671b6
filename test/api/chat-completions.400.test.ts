import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway, { tier: 'scale' })

const messages = [{ role: 'user', content: 'Hello' }]
const hello = { model: 'test-model', messages }
const uuid = '0192d0c0-0000-7000-8000-000000000000'

/** Sends this body unchanged, for bodies that JSON.stringify cannot produce. */
const send = (body: string | Uint8Array<ArrayBuffer>) => gateway.chat(customer, {}, { body })

describe('an invalid value is refused with the name of its field', () => {
  const rows: [param: string, value: unknown][] = [
    ...[0, -1, 1.5, '10', 2 ** 53 + 1, [], {}, true].map((value): [string, unknown] => ['max_tokens', value]),
    ...[0, -1, 1.5, '10'].map((value): [string, unknown] => ['max_completion_tokens', value]),
    ...[-0.1, 2.1, '1', true, []].map((value): [string, unknown] => ['temperature', value]),
    ...['cheap', '', 1, true, ['cheapest']].map((value): [string, unknown] => ['tier', value]),
    ...['true', 1, 0, {}].map((value): [string, unknown] => ['privacy_mode', value]),
    ...['true', 1, []].map((value): [string, unknown] => ['trusted_only', value]),
    ...[0, -5, 1.5, '100'].map((value): [string, unknown] => ['max_latency_ms', value]),
    ...['true', 1].map((value): [string, unknown] => ['stream', value]),
    ...['yes', []].map((value): [string, unknown] => ['stream_options', value]),
    ...[0, 17, 1.5, '2'].map((value): [string, unknown] => ['n', value]),
    ...['other-model', {}, 1].map((value): [string, unknown] => ['fallback_models', value]),
    ...[uuid, {}, 1].map((value): [string, unknown] => ['allow_hosters', value]),
    ...[uuid, {}, 1].map((value): [string, unknown] => ['deny_hosters', value]),
    ...[1, '', [], {}, true, 'x'.repeat(257), 'test\u0000model', 'test\nmodel'].map((value): [string, unknown] => [
      'model',
      value,
    ]),
    ...['Hello', {}, 1, []].map((value): [string, unknown] => ['messages', value]),
    ['tools', 'none'],
  ]
  test.each(rows)('%s: %j', async (param, value) => {
    const error = await readError(await gateway.chat(customer, { ...hello, [param]: value }))
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value', param })
    expect(error.message).toContain(`"${param}" must`)
  })

  const nested: [param: string, body: object][] = [
    ['fallback_models[1]', { fallback_models: ['test-model', 5] }],
    ['fallback_models[0]', { fallback_models: [''] }],
    // jsonb rejects half a surrogate pair, so the settlement of the served request would fail.
    ['fallback_models[0]', { fallback_models: ['\ud83d'] }],
    ['model', { model: 'a\udc00' }],
    ['fallback_models', { fallback_models: Array(17).fill('test-model') }],
    ['allow_hosters[1]', { allow_hosters: [uuid, 'not-a-uuid'] }],
    ['allow_hosters[0]', { allow_hosters: [`${uuid}0`] }],
    ['deny_hosters[2]', { deny_hosters: [uuid, uuid, `{${uuid}}`] }],
    ['deny_hosters[0]', { deny_hosters: [null] }],
    ['deny_hosters', { deny_hosters: Array(257).fill(uuid) }],
    ['stream_options.include_usage', { stream_options: { include_usage: 'yes' } }],
    ['messages[0]', { messages: ['Hello'] }],
    ['messages[0]', { messages: [null] }],
    ['messages[1]', { messages: [...messages, []] }],
    ['messages[0].role', { messages: [{ role: 'robot', content: 'Hello' }] }],
    ['messages[0].role', { messages: [{ role: 'User', content: 'Hello' }] }],
    ['messages[0].role', { messages: [{ role: 'x'.repeat(1_000_000), content: 'Hello' }] }],
    ['messages[0].content', { messages: [{ role: 'user', content: 5 }] }],
    ['messages[0].content', { messages: [{ role: 'user', content: null }] }],
    ['messages[0].content[1].type', { messages: [{ role: 'user', content: [text('a'), { type: 'video' }] }] }],
    ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text', text: 1 }] }] }],
    [
      'messages[0].content[0].image_url',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: 'x' }] }] },
    ],
    ...['http://169.254.169.254/latest/meta-data/', 'file:///etc/passwd'].map((url): [string, object] => [
      'messages[0].content[0].image_url.url',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] },
    ]),
    ['messages[0].content[0]', { messages: [{ role: 'user', content: ['Hello'] }] }],
    ['messages[1].tool_call_id', { messages: [...messages, { role: 'tool', tool_call_id: 4, content: 'x' }] }],
    ['messages[1].tool_calls', { messages: [...messages, { role: 'assistant', content: null, tool_calls: 'x' }] }],
    ['messages', { messages: Array(2_049).fill(messages[0]) }],
    ['tools', { tools: Array(513).fill({}) }],
  ]
  test.each(nested)('%s', async (param, fields) => {
    const error = await readError(await gateway.chat(customer, { ...hello, ...fields }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_value', param })
  })

  test('numbers outside the range of JavaScript are refused', async () => {
    for (const number of ['1e999', '-1e999', '1e-3', '9007199254740993']) {
      const error = await readError(await send(`{"model":"test-model","messages":[],"max_tokens":${number}}`))
      expect(error).toMatchObject({ status: 400, code: 'invalid_value', param: 'max_tokens' })
    }
    const error = await readError(await send('{"model":"test-model","messages":[],"temperature":1e999}'))
    expect(error).toMatchObject({ status: 400, param: 'temperature' })
  })

  test('different values for max_tokens and max_completion_tokens are refused', async () => {
    const error = await readError(await gateway.chat(customer, { ...hello, max_tokens: 5, max_completion_tokens: 6 }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_value', param: 'max_tokens' })
  })

  test('a message names the allowed values and does not repeat a long value', async () => {
    const error = await readError(await gateway.chat(customer, { ...hello, tier: 'x'.repeat(10_000) }))
    expect(error.message).toContain('one of cheapest, balanced, fastest')
    expect(error.message.length).toBeLessThan(200)
  })
})

describe('a missing field is named', () => {
  test.each([
    ['model', { messages }],
    ['model', { messages, model: undefined }],
    ['messages', { model: 'test-model' }],
    ['messages', { model: 'test-model', messages: null }],
    ['messages[0].role', { model: 'test-model', messages: [{ content: 'Hello' }] }],
    ['messages[0].content', { model: 'test-model', messages: [{ role: 'user' }] }],
    ['messages[0].tool_call_id', { model: 'test-model', messages: [{ role: 'tool', content: 'x' }] }],
  ])('%s', async (param, body) => {
    const error = await readError(await gateway.chat(customer, body))
    expect(error).toMatchObject({ status: 400, code: 'missing_parameter', param })
    expect(error.message).toContain(`"${param}" is required`)
  })
})

describe('a body that is not a JSON object is refused', () => {
  const deep = (levels: number) => `{"model":"test-model","messages":${'['.repeat(levels)}${']'.repeat(levels)}}`
  test.each([
    ['nothing', ''],
    ['white space', ' \n '],
    ['half a body', '{"model":"test-model","messages":[{"role":"us'],
    ['text', 'model=test-model'],
    ['single quotes', "{'model':'test-model'}"],
    ['a trailing comma', '{"model":"test-model",}'],
    ['two objects', '{}{}'],
    ['NaN', '{"model":"test-model","temperature":NaN}'],
    ['an array', '[]'],
    ['null', 'null'],
    ['a string', '"Hello"'],
    ['a number', '1'],
    ['a name twice', '{"model":"test-model","messages":[{"role":"user","content":"a","content":"b"}]}'],
    ['65 levels', deep(64)],
    ['100,000 levels', deep(100_000)],
    ['100,000 levels that never close', '['.repeat(100_000)],
    ['100,000 objects', '{"a":'.repeat(100_000)],
    ['100,000 unknown fields in a field', JSON.stringify({ ...hello, x: manyFields(100_000) })],
    ['100,000 fields in the parameters of a tool', JSON.stringify({ ...hello, tools: [manyFields(100_000)] })],
    ['1,000 objects of 100 fields', JSON.stringify({ ...hello, x: Array(1_000).fill(manyFields(100)) })],
    ['200,000 empty arrays', JSON.stringify({ ...hello, x: Array(200_000).fill([]) })],
    ['a million messages', `{"model":"test-model","messages":[${'{},'.repeat(999_999)}{}]}`],
    ['200,000 numbers', JSON.stringify({ ...hello, x: Array(200_000).fill(0) })],
  ])('%s', async (_name, body) => {
    expect(await readError(await send(body))).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'invalid_json',
      param: null,
    })
  })

  test('invalid UTF-8', async () => {
    const body = Buffer.from('{"model":"test-model","messages":[{"role":"user","content":"\xff\xfe"}]}', 'latin1')
    expect(await readError(await send(body))).toMatchObject({ status: 400, code: 'invalid_json' })
  })
})

test('hoster ids in lists are compared without regard to letter case', async () => {
  const body = { ...hello, allow_hosters: [uuid.toUpperCase()], deny_hosters: [uuid] }
  expect((await gateway.chat(customer, body)).status).toBe(200)
})

describe('a refusal by the model server is passed on', () => {
  test.each([
    ['400', 400, 'upstream_rejected'],
    ['422', 422, 'upstream_rejected'],
    ['413', 413, 'upstream_rejected'],
  ])('%s', async (_name, code, expected) => {
    upstream.respondWith(status(code, { error: { message: 'top_p is out of range', param: 'top_p', code: 'bad' } }))
    const error = await readError(await gateway.chat(customer, hello))
    expect(error).toMatchObject({ status: 400, code: expected, param: 'top_p' })
    expect(error.message).toContain('top_p is out of range')
  })

  test.each([
    ['with Content-Encoding', { 'content-encoding': 'gzip' }],
    ['without Content-Encoding', undefined],
  ])('with a message of the gateway if the body is gzip %s', async (_name, headers) => {
    upstream.respondWith((_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json', ...headers })
      response.end(gzipSync(JSON.stringify({ error: { message: 'top_p is out of range' } })))
    })
    const { message, code } = await readError(await gateway.chat(customer, hello))
    expect(code).toBe('upstream_rejected')
    expect(message).toBe(
      'The model server refused the request as invalid. Check that the model supports its parameters.',
    )
  })

  test('a prompt that is too long', async () => {
    upstream.respondWith(
      status(400, {
        error: { message: "This model's maximum context length is 10 tokens", code: 'context_length_exceeded' },
      }),
    )
    expect(await readError(await gateway.chat(customer, { ...hello, stream: true }))).toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    })
  })

  test('without the address, key or file path of that server', async () => {
    const { port } = upstream
    upstream.respondWith(
      status(400, {
        error: { message: `bad key sk-abcdef123456 at http://127.0.0.1:${port}/v1 in /srv/models/x.gguf` },
      }),
    )
    const { message } = await readError(await gateway.chat(customer, hello))
    for (const secret of ['sk-abcdef', String(port), '127.0.0.1', '/srv/models']) expect(message).not.toContain(secret)
  })
})

test('a request that fits no model is refused before any upstream is called', async () => {
  const sentBefore = upstream.requests.length
  const messages = [{ role: 'user', content: 'x'.repeat(300_000) }]
  const error = await readError(await gateway.chat(customer, { ...hello, messages, max_tokens: 5 }))
  expect(error).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'messages' })
  expect(upstream.requests.length).toBe(sentBefore)
})

test('invalid requests are neither charged nor counted', async () => {
  const fresh = await gateway.customer()
  await gateway.chat(fresh, { ...hello, tier: 'wrong' })
  await gateway.chat(fresh, {}, { body: 'not JSON' })
  const { rate_limits } = (await (await gateway.get(fresh, '/v1/usage')).json()) as {
    rate_limits: { requests_today: number }
  }
  expect(rate_limits.requests_today).toBe(0)
  const rows = await gateway.usage(customer)
  expect(rows.filter(row => row.outcome !== 'served').map(row => row.cost_nanos)).toEqual([0n, 0n, 0n, 0n, 0n, 0n, 0n])
})

function manyFields(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 0]))
}

function text(value: string) {
  return { type: 'text', text: value }
}
