import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest, sendWhole } from '../harness/raw-request.ts'
import { type ScriptedUpstream, startScriptedUpstream } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp
let customer: TestCustomer

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  const offer = testOffer(upstream.baseUrl, {
    contextTokens: 10_000_000,
    price: { inputPicoPerToken: 0n, outputPicoPerToken: 0n },
  })
  gateway = await startTestApp({ offers: [offer] })
  customer = await gateway.customer()
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const LIMIT = 4 * 1024 * 1024
const head = () =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer ${customer.key}\r\n`

/** A valid request of exactly this many bytes. */
function bodyOf(bytes: number): string {
  const empty = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: '' }] })
  return empty.replace('""', `"${'x'.repeat(bytes - empty.length)}"`)
}

test('four MiB are taken, whole', async () => {
  const body = bodyOf(LIMIT)
  expect((await gateway.chat(customer, {}, { body })).status).toBe(200)
  expect(upstream.requests.at(-1)!.body.messages![0]!.content).toHaveLength(body.indexOf('"}]') - body.indexOf('xxx'))
})

test('one byte more is refused', async () => {
  const response = await gateway.chat(customer, {}, { body: bodyOf(LIMIT + 1) })
  expect(response.headers.get('x-request-id')).toBeTruthy()
  expect(await readError(response)).toMatchObject({
    status: 413,
    type: 'invalid_request_error',
    code: 'request_too_large',
    message: 'The request body is larger than 4 MiB. Send less, or images by URL.',
  })
})

test('one byte more is refused by its announcement alone', async () => {
  const { status, body } = await rawRequest(gateway.url, `${head()}content-length: ${LIMIT + 1}\r\n\r\n`)
  expect([status, JSON.parse(body).error.code]).toEqual([413, 'request_too_large'])
})

test('chunks without an announced length are refused when they pass the limit, also if they never end', async () => {
  const piece = `10000\r\n${'x'.repeat(0x10000)}\r\n`
  const { status, body } = await rawRequest(
    gateway.url,
    `${head()}transfer-encoding: chunked\r\n\r\n`,
    ...Array.from({ length: 65 }, () => piece),
  )
  expect([status, JSON.parse(body).error.code]).toEqual([413, 'request_too_large'])
})

test('what is refused is read all the same: at a reset nginx would take the node for failed, for everybody', async () => {
  const sent = Buffer.alloc(5 * 1024 * 1024, 'x')
  const { status, headers } = await sendWhole(gateway.url, `${head()}content-length: ${sent.length}\r\n\r\n`, sent)
  expect(status).toBe(413)
  expect(headers['x-request-id']).toBeTruthy()
})

test.each([
  [2_048, '2 KiB'],
  [1_500, '1500 bytes'],
  [2_097_152, '2 MiB'],
])('a limit of %i bytes is told as it is set', async (bytes, told) => {
  const smaller = await startTestApp({ yaml: `server: { body_limit_bytes: ${bytes} }` })
  try {
    const error = await readError(await smaller.chat(await smaller.customer(), {}, { body: bodyOf(bytes + 1) }))
    expect(error).toMatchObject({ status: 413, message: expect.stringContaining(`larger than ${told}.`) })
  } finally {
    await smaller.close()
  }
})

test('none of them was asked, counted or charged', async () => {
  expect(upstream.requests.length).toBe(1)
  expect((await gateway.usage(customer)).length).toBe(1)
})
