import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

test('an unknown model is named in the message, is free and counts against the rate limits', async () => {
  const customer = await gateway.customer({ limits: { requestsPerMinute: 100 } })
  for (const [index, model] of ['gpt-99', 'Test-Model', 'constructor', 'toString', 'upstream-test-model'].entries()) {
    const response = await gateway.chat(customer, { ...hello, model })
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe(String(99 - index))
    const error = await readError(response)
    expect(error).toMatchObject({
      status: 404,
      type: 'invalid_request_error',
      code: 'model_not_found',
      param: 'model',
      message: `The model \`${model}\` does not exist or you do not have access to it. GET /v1/models lists the models.`,
    })
  }
  expect(upstream.requests).toEqual([])
  expect(await gateway.usage(customer)).toEqual([])
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
})

test('an unknown model is not replaced by a fallback', async () => {
  const customer = await gateway.customer()
  const response = await gateway.chat(customer, { ...hello, model: 'tset-model', fallback_models: ['test-model'] })
  expect(await readError(response)).toMatchObject({ status: 404, code: 'model_not_found' })
})

test('an unknown fallback model is ignored, and an unknown model is refused', async () => {
  const customer = await gateway.customer()
  expect((await gateway.chat(customer, { ...hello, fallback_models: ['gone-model'] })).status).toBe(200)
  expect((await gateway.chat(customer, { ...hello, model: 'gone-model' })).status).toBe(404)
})

test('unknown paths and variants of the path are 404', async () => {
  const { key } = await gateway.customer()
  for (const path of [
    '/v1',
    '/v1/',
    '/v0/chat/completions',
    '/v1/chat',
    '/v1/chat/completions/',
    '/v1/chat/completions/x',
    '//v1/chat/completions',
    '//v1/usage',
    '/v1/%2e%2e/admin',
    '/V1/chat/completions',
    '/v1/chat%2fcompletions',
    '/admin',
    '/v1/%',
    '/v1/usage/%c3%28',
    `/v1/${'x'.repeat(5_000)}`,
  ]) {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(hello),
    })
    const error = await readError(response)
    expect([path.slice(0, 40), error.status, error.code]).toEqual([path.slice(0, 40), 404, 'not_found'])
    expect(error.message.length).toBeLessThan(200)
    expect(response.headers.get('x-request-id')).toBeTruthy()
  }
})

test('dot segments do not reach another path', async () => {
  const { key } = await gateway.customer()
  for (const path of ['/v1/../metrics', '/v1/%2e%2e/metrics', '/v1/usage/../../metrics', 'http://x/v1/nothing']) {
    const { status, body } = await rawRequest(
      gateway.url,
      `GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`,
    )
    expect([path, status, JSON.parse(body).error.code]).toEqual([path, 404, 'not_found'])
  }
})

test.each([
  ['chat completions', 'POST', '/v1//chat/completions', 200],
  ['chat completions in absolute form', 'POST', 'http://x/v1//chat/completions', 200],
  ['models', 'GET', '/v1//models', 200],
  ['three slashes', 'GET', '/v1///models', 404],
])('a base URL may end in a slash: %s', async (_name, method, target, expected) => {
  expect(await statusOf(method, target)).toBe(expected)
})

test.each([
  ['chat completions', 'POST', 'http://x/v1/chat/completions', 200],
  ['chat completions with a query', 'POST', 'HTTP://x:80/v1/chat/completions?a=http://y/', 200],
  ['a report', 'GET', 'https://x/v1/usage', 200],
  ['no path', 'GET', 'http://x', 200],
  ['an asterisk', 'GET', '*', 404],
  ['an asterisk before a path', 'GET', '*v1/usage', 404],
])('the request target may be an absolute URL: %s', async (_name, method, target, expected) => {
  expect(await statusOf(method, target)).toBe(expected)
})

async function statusOf(method: string, target: string): Promise<number> {
  const { key } = await gateway.customer()
  const body = JSON.stringify(hello)
  const { status } = await rawRequest(
    gateway.url,
    `${method} ${target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  )
  return status
}
