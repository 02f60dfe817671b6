import { once } from 'node:events'
import { expect, test } from 'vitest'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { openClient } from '../harness/raw-client.ts'
import { rawRequest, sendWhole } from '../harness/raw-request.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const free = { inputPicoPerToken: 0n, outputPicoPerToken: 0n }
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl, { contextTokens: 10_000_000, price: free })],
}))
const customer = useCustomer(gateway)

const LIMIT = 16 * 1024 * 1024
const head = () =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer ${customer.key}\r\n`

/** A valid request of exactly this many bytes. */
function bodyOf(bytes: number): string {
  const empty = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: '' }] })
  return empty.replace('""', `"${'x'.repeat(bytes - empty.length)}"`)
}

test('a body of exactly 16 MiB is accepted', async () => {
  const body = bodyOf(LIMIT)
  expect((await gateway.chat(customer, {}, { body })).status).toBe(200)
  expect(upstream.requests.at(-1)!.body.messages![0]!.content).toHaveLength(body.indexOf('"}]') - body.indexOf('xxx'))
})

test('a body of one byte more is refused', async () => {
  const response = await gateway.chat(customer, {}, { body: bodyOf(LIMIT + 1) })
  expect(response.headers.get('x-request-id')).toBeTruthy()
  expect(await readError(response)).toMatchObject({
    status: 413,
    type: 'invalid_request_error',
    code: 'request_too_large',
    message: 'The request body is larger than 16 MiB. Shorten it, or send images by URL.',
  })
})

test('a Content-Length above the limit is refused before the body arrives', async () => {
  const { status, body } = await rawRequest(gateway.url, `${head()}content-length: ${LIMIT + 1}\r\n\r\n`)
  expect([status, JSON.parse(body).error.code]).toEqual([413, 'request_too_large'])
})

test('a chunked body is refused once it exceeds the limit, even if it never ends', async () => {
  const piece = `10000\r\n${'x'.repeat(0x10000)}\r\n`
  const { status, body } = await rawRequest(
    gateway.url,
    `${head()}transfer-encoding: chunked\r\n\r\n`,
    ...Array.from({ length: 257 }, () => piece),
  )
  expect([status, JSON.parse(body).error.code]).toEqual([413, 'request_too_large'])
})

const chunks = (body: string, size: number) =>
  `${body
    .match(new RegExp(`.{1,${size}}`, 'g'))!
    .map(piece => `${piece.length.toString(16)}\r\n${piece}\r\n`)
    .join('')}0\r\n\r\n`

test('a body in many small chunks is refused, and one in some small chunks is not', async () => {
  const chunkedHead = `${head()}transfer-encoding: chunked\r\n\r\n`
  const some = await rawRequest(gateway.url, chunkedHead, chunks(bodyOf(40_000), 5))
  expect(some.status).toBe(200)
  const many = await rawRequest(gateway.url, chunkedHead, chunks(bodyOf(10_000), 1))
  expect([many.status, JSON.parse(many.body).error.message]).toEqual([
    413,
    'The request body comes in too many small chunks. Send larger chunks, or a Content-Length.',
  ])
})

test.each(['/v1/chat/completions', '/v1/usage', '/v1/nothing'])(
  'a chunked body to %s that nobody reads is not read to its end',
  async path => {
    const client = openClient(Number(new URL(gateway.url).port))
    client.socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n`)
    await once(client.socket, 'end')
    expect(client.read).toMatch(/^HTTP\/1\.1 4\d\d /)
  },
)

// nginx treats a node that resets the connection as failed and stops sending it any requests.
test('the rest of a refused body is read instead of resetting the connection', async () => {
  const sent = Buffer.alloc(17 * 1024 * 1024, 'x')
  const { status, headers } = await sendWhole(gateway.url, `${head()}content-length: ${sent.length}\r\n\r\n`, sent)
  expect(status).toBe(413)
  expect(headers['x-request-id']).toBeTruthy()
})

test.each([
  [2_048, '2 KiB'],
  [1_500, '1500 bytes'],
  [2_097_152, '2 MiB'],
])('the message names a limit of %i bytes as %s', async (bytes, shown) => {
  const smaller = await startTestApp({ yaml: `server: { body_limit_bytes: ${bytes} }` })
  try {
    const error = await readError(await smaller.chat(await smaller.customer(), {}, { body: bodyOf(bytes + 1) }))
    expect(error).toMatchObject({ status: 413, message: expect.stringContaining(`larger than ${shown}.`) })
  } finally {
    await smaller.close()
  }
})

test('only the two accepted requests reach the upstream and are billed', async () => {
  expect(upstream.requests.length).toBe(2)
  expect((await gateway.usage(customer)).length).toBe(2)
})
