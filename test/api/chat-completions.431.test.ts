import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { rawRequest, sendWhole } from '../harness/raw-request.ts'
import { type ScriptedUpstream, startScriptedUpstream } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp
let customer: TestCustomer

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
  customer = await gateway.customer()
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const body = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })
const line = 'POST /v1/chat/completions HTTP/1.1\r\n'
const common = () => `host: x\r\nauthorization: Bearer ${customer.key}\r\ncontent-type: application/json\r\n`
const length = `content-length: ${body.length}\r\n`

test('headers above 16 KiB are refused as such', async () => {
  const {
    status,
    headers,
    body: refused,
  } = await rawRequest(gateway.url, `${line}${common()}${length}x-big: ${'x'.repeat(17_000)}\r\n\r\n${body}`)
  expect(status).toBe(431)
  expect(headers['x-request-id']).toBeTruthy()
  expect(JSON.parse(refused).error).toMatchObject({ type: 'invalid_request_error', code: 'headers_too_large' })
})

test('what follows them is read all the same: at a reset nginx would take the node for failed, for everybody', async () => {
  const sent = Buffer.alloc(5 * 1024 * 1024, 'x')
  const big = `x-a: ${'x'.repeat(12_000)}\r\nx-b: ${'x'.repeat(12_000)}\r\n`
  const { status } = await sendWhole(
    gateway.url,
    `${line}${common()}${big}content-length: ${sent.length}\r\n\r\n`,
    sent,
  )
  expect(status).toBe(431)
})

test.each([
  ['NUL in a value', `x-a: a\0b\r\n`],
  ['an escape character in a value', `user-agent: a\x1b[31mb\r\n`],
  ['a lone CR in a value', `x-a: a\rb\r\n`],
  ['DEL in a value', `x-a: a\x7fb\r\n`],
  ['a control character in the key', `x-api-key: a\x01b\r\n`],
  ['a blank in a name', `x a: b\r\n`],
  ['a blank before the colon', `x-a : b\r\n`],
  ['an empty name', `: b\r\n`],
  ['a folded line', `x-a: b\r\n c\r\n`],
  ['no colon', `x-a\r\n`],
  ['two lengths', `content-length: ${body.length + 1}\r\n`],
  ['a negative length', `content-length: -1\r\n`],
  ['length and chunks', `transfer-encoding: chunked\r\n`],
])('%s is a malformed header', async (_name, header) => {
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
  ['no Host, at an address that is not there', 'Host', 'GET /nothing HTTP/1.1\r\n\r\n'],
  ['two Hosts', 'Host', `${line}host: x\r\nHOST: y\r\n${length}\r\n${body}`],
  ['two Hosts over HTTP/1.0', 'Host', 'GET /healthz HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n'],
  ['an expectation nobody can meet', 'Expect', `${line}host: x\r\nexpect: 200-ok\r\n${length}\r\n${body}`],
])('%s is told in our words', async (_name, param, bytes) => {
  const { status, headers, body: refused } = await rawRequest(gateway.url, bytes)
  expect(status).toBe(400)
  expect(headers['x-request-id']).toBeTruthy()
  expect(JSON.parse(refused).error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_header', param })
})

test('HTTP/1.0 needs no Host', async () => {
  expect(await rawRequest(gateway.url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatchObject({ status: 200 })
})

test.each([
  ['a length that is no number', `${line}host: x\r\ncontent-length: 1e2\r\n\r\n`],
  ['chunks in disguise', `${line}${'host: x\r\n'}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['no HTTP at all', 'hello\r\n\r\n'],
  ['bytes of TLS', Buffer.from('16030100ff010000fb0303', 'hex')],
])('%s is a 400', async (_name, bytes) => {
  const { status } = await rawRequest(gateway.url, bytes)
  expect(status).toBe(400)
})

test('a chunk size that is no number is a 400, and its request never runs', async () => {
  const { status } = await rawRequest(
    gateway.url,
    `${line}${common()}transfer-encoding: chunked\r\n\r\nzz\r\n${body}\r\n`,
  )
  expect(status).toBe(400)
})

test('nothing of this reached an upstream or was charged, and the gateway serves on', async () => {
  expect(upstream.requests).toEqual([])
  expect((await gateway.chat(customer, JSON.parse(body))).status).toBe(200)
  expect((await gateway.usage(customer)).length).toBe(1)
})
