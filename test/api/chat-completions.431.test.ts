import { once } from 'node:events'
import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { openClient } from '../harness/raw-client.ts'
import { rawRequest, sendWhole } from '../harness/raw-request.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway)

const body = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })
const line = 'POST /v1/chat/completions HTTP/1.1\r\n'
const common = () => `host: x\r\nauthorization: Bearer ${customer.key}\r\ncontent-type: application/json\r\n`
const length = `content-length: ${body.length}\r\n`

test('headers above 16 KiB are refused', async () => {
  const {
    status,
    headers,
    body: refused,
  } = await rawRequest(gateway.url, `${line}${common()}${length}x-big: ${'x'.repeat(17_000)}\r\n\r\n${body}`)
  expect(status).toBe(431)
  expect(headers['x-request-id']).toBeTruthy()
  expect(JSON.parse(refused).error).toMatchObject({ type: 'invalid_request_error', code: 'headers_too_large' })
})

// nginx treats a node that resets the connection as failed and stops sending it any requests.
test('the body after refused headers is read instead of resetting the connection', async () => {
  const sent = Buffer.alloc(5 * 1024 * 1024, 'x')
  const big = `x-a: ${'x'.repeat(12_000)}\r\nx-b: ${'x'.repeat(12_000)}\r\n`
  const { status } = await sendWhole(
    gateway.url,
    `${line}${common()}${big}content-length: ${sent.length}\r\n\r\n`,
    sent,
  )
  expect(status).toBe(431)
})

test('bytes without end behind refused headers are not read for long', async () => {
  const client = openClient(Number(new URL(gateway.url).port))
  client.socket.write(`${line}${common()}x-big: ${'x'.repeat(17_000)}\r\n`)
  const closed = once(client.socket, 'close')
  const piece = Buffer.alloc(1024 * 1024, 'x')
  let sent = 0
  while (!client.socket.destroyed && sent < 200) {
    sent++
    await Promise.race([closed, new Promise(resolve => client.socket.write(piece, resolve))])
  }
  expect(client.read).toMatch(/^HTTP\/1\.1 431 /)
  // 8 MiB, and what the kernel takes.
  expect(sent).toBeLessThan(50)
})

test.each([
  ['NUL in a value', `x-a: a\0b\r\n`],
  ['an escape character in a value', `user-agent: a\x1b[31mb\r\n`],
  ['a lone CR in a value', `x-a: a\rb\r\n`],
  ['DEL in a value', `x-a: a\x7fb\r\n`],
  ['a control character in the key', `x-api-key: a\x01b\r\n`],
  ['a space in a name', `x a: b\r\n`],
  ['a space before the colon', `x-a : b\r\n`],
  ['an empty name', `: b\r\n`],
  ['a folded line', `x-a: b\r\n c\r\n`],
  ['no colon', `x-a\r\n`],
  ['two lengths', `content-length: ${body.length + 1}\r\n`],
  ['a negative length', `content-length: -1\r\n`],
  ['Content-Length and Transfer-Encoding', `transfer-encoding: chunked\r\n`],
])('%s is an invalid header', async (_name, header) => {
  const {
    status,
    headers,
    body: refused,
  } = await rawRequest(gateway.url, `${line}${common()}${length}${header}\r\n${body}`)
  expect(status).toBe(400)
  expect(headers['x-request-id']).toBeTruthy()
  expect(JSON.parse(refused).error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_header' })
})

test.each([
  ['no Host', 'Host', `${line}${length}\r\n${body}`],
  ['no Host, on an unknown path', 'Host', 'GET /nothing HTTP/1.1\r\n\r\n'],
  ['two Hosts', 'Host', `${line}host: x\r\nHOST: y\r\n${length}\r\n${body}`],
  ['two Hosts in HTTP/1.0', 'Host', 'GET /healthz HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n'],
  ['an unknown expectation', 'Expect', `${line}host: x\r\nexpect: 200-ok\r\n${length}\r\n${body}`],
])('%s is refused with an error of the gateway', async (_name, param, bytes) => {
  const { status, headers, body: refused } = await rawRequest(gateway.url, bytes)
  expect(status).toBe(400)
  expect(headers['x-request-id']).toBeTruthy()
  expect(JSON.parse(refused).error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_header', param })
})

test('HTTP/1.0 needs no Host', async () => {
  expect(await rawRequest(gateway.url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatchObject({ status: 200 })
})

test.each([
  ['a length that is not a number', `${line}host: x\r\ncontent-length: 1e2\r\n\r\n`],
  ['an unknown transfer encoding', `${line}${'host: x\r\n'}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['a transfer encoding after chunked', `${line}host: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
  ['a vertical tab before chunked', `${line}host: x\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n`],
  ['two transfer encodings', `${line}host: x\r\ntransfer-encoding: identity\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n`],
  ['a line end without CR', `${line}host: x\ncontent-length: 2\n\n{}`],
  ['a line end without CR after the headers', `${line}host: x\r\ncontent-length: 2\n\r\n{}`],
  ['a chunk line end without CR', `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\n0\n\n`],
  ['not HTTP', 'hello\r\n\r\n'],
  ['a TLS handshake', Buffer.from('16030100ff010000fb0303', 'hex')],
])('%s is a 400', async (_name, bytes) => {
  const { status } = await rawRequest(gateway.url, bytes)
  expect(status).toBe(400)
})

test('a chunk size that is not a number is a 400, and the request does not run', async () => {
  const { status } = await rawRequest(
    gateway.url,
    `${line}${common()}transfer-encoding: chunked\r\n\r\nzz\r\n${body}\r\n`,
  )
  expect(status).toBe(400)
})

test('refused requests reach no upstream and are not billed, and the gateway still serves', async () => {
  expect(upstream.requests).toEqual([])
  expect((await gateway.chat(customer, JSON.parse(body))).status).toBe(200)
  expect((await gateway.usage(customer)).length).toBe(1)
})
