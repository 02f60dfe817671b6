import { expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp()

test.each([
  ['GET', '/v1/chat/completions', 'POST'],
  ['PUT', '/v1/chat/completions', 'POST'],
  ['DELETE', '/v1/chat/completions', 'POST'],
  ['PATCH', '/v1/chat/completions', 'POST'],
  ['GET', '/v1/completions', 'POST'],
  ['GET', '/v1/embeddings', 'POST'],
  ['PUT', '/v1/rerank', 'POST'],
  ['POST', '/v1/usage', 'GET'],
  ['POST', '/v1/usage/tokens?days=3', 'GET'],
  ['DELETE', '/v1/usage/export', 'GET'],
  ['POST', '/v1/models', 'GET'],
  ['DELETE', '/v1/models/meta/llama-3', 'GET'],
  ['POST', '/healthz', 'GET'],
  ['POST', '/', 'GET'],
])('%s %s is refused with the allowed method', async (method, path, allowed) => {
  const { key } = await gateway.customer()
  const response = await fetch(gateway.url + path, { method, headers: { authorization: `Bearer ${key}` } })
  expect(response.headers.get('allow')).toBe(allowed === 'GET' ? 'GET, HEAD' : allowed)
  const error = await readError(response)
  expect(error).toMatchObject({ status: 405, type: 'invalid_request_error', code: 'method_not_allowed' })
  expect(error.message).toContain(`accepts ${allowed}`)
})

test('unusual methods are 4xx, and a method override header is ignored', async () => {
  for (const request of [
    'TRACE /v1/usage HTTP/1.1\r\nhost: x\r\n\r\n',
    'FOO /v1/usage HTTP/1.1\r\nhost: x\r\n\r\n',
    'GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-http-method-override: POST\r\n\r\n',
  ]) {
    const { status } = await rawRequest(gateway.url, request)
    expect([request.split(' ')[0], status >= 400 && status < 500]).toEqual([request.split(' ')[0], true])
  }
})

test('an unknown path or method is refused before headers and body are checked', async () => {
  const fields: [target: string, fields: string][] = [
    ['QUERY /v1/usage', ''],
    ['QUERY /v1/chat/completions', 'content-length: 2\r\n'],
    ['QUERY /v1/nothing', ''],
    ['POST /v1/nothing', 'content-type: json\r\ncontent-length: 2\r\n'],
    ['PUT /v1/usage', 'content-type: json\r\ncontent-length: 2\r\n'],
  ]
  for (const [target, more] of fields) {
    const body = more === '' ? '' : '{}'
    const refused = await rawRequest(gateway.url, `${target} HTTP/1.1\r\nhost: x\r\n${more}\r\n${body}`)
    const code = target.endsWith('nothing') ? 'not_found' : 'method_not_allowed'
    expect([target, JSON.parse(refused.body).error.code]).toEqual([target, code])
    expect(refused.status).toBe(code === 'not_found' ? 404 : 405)
    expect(refused.headers['x-request-id']).toBeTruthy()
  }
})
