import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

const body = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

test.each([
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/jsonp',
  'application/json-seq',
  'json',
])('the content type %s is refused with the expected one', async contentType => {
  const { key } = await gateway.customer()
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': contentType },
    body,
  })
  const error = await readError(response)
  expect(error).toMatchObject({ status: 415, code: 'unsupported_media_type', param: 'Content-Type' })
  expect(error.message).toContain('application/json')
})

test.each([
  ['content-encoding', 'gzip'],
  ['content-encoding', 'Deflate'],
  ['content-encoding', 'identity, br'],
  ['content-type', 'application/json; charset=utf-16'],
  ['content-type', 'application/json;a=b;CHARSET="iso-8859-1"'],
  ['content-type', 'application/json; charset='],
])('%s: %s is refused whatever the body is', async (name, value) => {
  const { key } = await gateway.customer()
  for (const bytes of [body, new Uint8Array(gzipSync(body))]) {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', [name]: value },
      body: bytes,
    })
    const error = await readError(response)
    expect(error).toMatchObject({ status: 415, code: 'unsupported_media_type' })
    expect(error.param?.toLowerCase()).toBe(name)
    const shown = /charset="?([^"]*)/i.exec(value)?.[1] ?? value
    expect(error.message).toContain(`"${shown}" is not supported`)
  }
})

test('a body without a content type is refused', async () => {
  const { key } = await gateway.customer()
  const refused = await rawRequest(
    gateway.url,
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  expect([refused.status, JSON.parse(refused.body).error.code]).toEqual([415, 'unsupported_media_type'])
})

test.each([
  'application/json',
  'application/json; charset=utf-8',
  'Application/JSON',
  'application/json;charset="UTF-8"',
  'application/json; charset=utf8; profile=x',
])('the content type %s is accepted, also with Content-Encoding identity', async contentType => {
  const { key } = await gateway.customer()
  for (const encoding of [{}, { 'content-encoding': 'Identity' }]) {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': contentType, ...encoding },
      body,
    })
    expect(response.status).toBe(200)
  }
})
