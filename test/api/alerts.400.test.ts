import { describe, expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp()
const customer = useCustomer(gateway, { key: { scopes: ['manage'] } })

function send(path: string, method: string, body?: string, contentType = 'application/json') {
  return fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${customer.key}`, ...(body !== undefined && { 'content-type': contentType }) },
    ...(body !== undefined && { body }),
  })
}

const hook = { channel: 'webhook', target: 'https://hooks.acme.dev/x' }

describe('POST /v1/alerts', () => {
  test.each([
    [{ ...hook }, 'missing_parameter', 'kind'],
    [{ kind: 'daily_spend' }, 'missing_parameter', 'channel'],
    [{ kind: 'low_balance', ...hook }, 'missing_parameter', 'threshold_usd'],
    [{ kind: 'daily_spend', channel: 'webhook' }, 'missing_parameter', 'target'],
    [{ kind: 'high_balance', ...hook }, 'invalid_value', 'kind'],
    [{ kind: 'daily_spend', channel: 'sms' }, 'invalid_value', 'channel'],
    [{ kind: 'low_balance', threshold_usd: 0, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: -1, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: '1e3', ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: 1e-10, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: 0.1234567891, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: 1e9, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'low_balance', threshold_usd: true, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'large_charge', threshold_usd: 0.09, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'daily_spend', threshold_usd: 1, ...hook }, 'invalid_value', 'threshold_usd'],
    [{ kind: 'daily_spend', channel: 'webhook', target: 'http://acme.dev/' }, 'invalid_value', 'target'],
    [{ kind: 'daily_spend', channel: 'webhook', target: 'https://10.1.2.3/' }, 'invalid_value', 'target'],
    [{ kind: 'daily_spend', channel: 'email', target: 'victim@example.com' }, 'invalid_value', 'target'],
    [{ kind: 'daily_spend', customer_id: 'x', ...hook }, 'invalid_value', 'customer_id'],
  ])('%j is refused', async (body, code, param) => {
    const error = await readError(await send('/v1/alerts', 'POST', JSON.stringify(body)))
    expect(error).toMatchObject({ status: 400, code, param })
  })

  test('the messages for missing, invalid and unknown fields are those of every other endpoint', async () => {
    const messageFor = async (body: object) =>
      (await readError(await send('/v1/alerts', 'POST', JSON.stringify(body)))).message
    const kinds = 'one of low_balance, daily_spend, key_limit_reached, large_charge'
    expect(await messageFor({})).toBe(`"kind" is required: it must be ${kinds}.`)
    expect(await messageFor({ kind: 'rain' })).toBe(`"kind" must be ${kinds}; got "rain".`)
    expect(await messageFor({ kind: 'daily_spend', channel: 'email', rain: 1 })).toBe(
      '"rain" is not a field of an alert rule. The fields are kind, threshold_usd, channel, target.',
    )
  })

  test('a body that is not a JSON object is refused', async () => {
    expect(await readError(await send('/v1/alerts', 'POST', '[1]'))).toMatchObject({
      status: 400,
      code: 'invalid_json',
    })
    expect(await readError(await send('/v1/alerts', 'POST'))).toMatchObject({ status: 400, code: 'invalid_json' })
    const text = await readError(await send('/v1/alerts', 'POST', '{}', 'text/plain'))
    expect(text).toMatchObject({ status: 415, code: 'unsupported_media_type' })
    const long = await readError(await send('/v1/alerts', 'POST', `{"kind":"${'x'.repeat(4_200_000)}"}`))
    expect(long).toMatchObject({ status: 413, code: 'request_too_large' })
  })

  test('the twenty-first rule is refused', async () => {
    const body = JSON.stringify({ kind: 'daily_spend', channel: 'email' })
    for (let n = 0; n < 20; n++) expect((await send('/v1/alerts', 'POST', body)).status).toBe(200)
    expect(await readError(await send('/v1/alerts', 'POST', body))).toMatchObject({
      status: 400,
      code: 'invalid_value',
    })
  })
})

test('the eleventh test alert within an hour is 429', async () => {
  const { data } = (await (await send('/v1/alerts', 'GET')).json()) as { data: { id: string }[] }
  const path = `/v1/alerts/${data[0]!.id}/test`
  for (let n = 0; n < 10; n++) expect((await send(path, 'POST')).status).toBe(200)
  const refused = await send(path, 'POST')
  expect(refused.headers.get('retry-after')).toBe('600')
  expect(await readError(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
})

test('concurrent requests cannot exceed the limits on rules and test alerts', async () => {
  const customer = await gateway.customer({ key: { scopes: ['manage'] } })
  const post = async (path: string, body?: object) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, id: ((await response.json()) as { id?: string }).id }
  }
  const add = () => post('/v1/alerts', { kind: 'daily_spend', channel: 'email' })
  const added = (await Promise.all(Array.from({ length: 40 }, add))).filter(({ status }) => status === 200)
  expect(added).toHaveLength(20)
  const tested = await Promise.all(Array.from({ length: 40 }, (_, n) => post(`/v1/alerts/${added[n % 20]!.id}/test`)))
  expect(tested.filter(({ status }) => status === 200)).toHaveLength(10)
})

test('an endpoint without a body ignores Content-Type, which curl sends with -d', async () => {
  const customer = await gateway.customer({ key: { scopes: ['manage'] } })
  const post = (path: string, method: string, body: string, type: string) =>
    fetch(gateway.url + path, {
      method,
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': type },
      body,
    })
  const rule = JSON.stringify({ kind: 'daily_spend', channel: 'email' })
  const { id } = (await (await post('/v1/alerts', 'POST', rule, 'application/json')).json()) as { id: string }
  const form = 'application/x-www-form-urlencoded'
  expect((await post(`/v1/alerts/${id}/test`, 'POST', '', form)).status).toBe(200)
  expect((await post(`/v1/alerts/${id}`, 'DELETE', 'please', 'text/plain')).status).toBe(200)
  expect((await post('/v1/alerts', 'POST', rule, form)).status).toBe(415)
})

test('a very long rule id without a key is 401, not an internal error', async () => {
  const response = await fetch(`${gateway.url}/v1/alerts/${'x'.repeat(600)}/deliveries`)
  expect(await readError(response)).toMatchObject({ status: 401, code: 'invalid_api_key' })
})

test('a wrong method is 405 with the allowed methods', async () => {
  const refused = await send('/v1/alerts', 'DELETE')
  expect(refused.headers.get('allow')).toBe('GET, HEAD, POST')
  expect(refused.status).toBe(405)
  const one = await send('/v1/alerts/00000000-0000-4000-8000-000000000000', 'GET')
  expect(one.headers.get('allow')).toBe('DELETE')
  expect(one.status).toBe(405)
})

test.each(['00000000-0000-4000-8000-000000000000', 'x', '%27%20OR%201=1--', '%00', 'x'.repeat(600)])(
  'the unknown rule %s is 404',
  async id => {
    for (const [method, path] of [
      ['DELETE', ''],
      ['POST', '/test'],
      ['GET', '/deliveries'],
    ] as const) {
      expect(await readError(await send(`/v1/alerts/${id}${path}`, method))).toMatchObject({
        status: 404,
        code: 'not_found',
      })
    }
  },
)

test('a key without the scope manage can read rules but not change them', async () => {
  const reader = await gateway.customer()
  const as = (method: string, path: string) =>
    fetch(`${gateway.url}${path}`, { method, headers: { authorization: `Bearer ${reader.key}` } })
  expect((await as('GET', '/v1/alerts')).status).toBe(200)
  const id = '00000000-0000-4000-8000-000000000000'
  for (const [method, path] of [
    ['POST', '/v1/alerts'],
    ['POST', `/v1/alerts/${id}/test`],
    ['DELETE', `/v1/alerts/${id}`],
  ] as const) {
    expect(await readError(await as(method, path))).toMatchObject({ status: 403, code: 'insufficient_scope' })
  }
})
