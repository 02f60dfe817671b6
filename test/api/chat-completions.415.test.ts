import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { type ScriptedUpstream, startScriptedUpstream } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const body = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

test.each([
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/jsonp',
  'application/json-seq',
  'json',
])('%s is refused with the type that is meant', async contentType => {
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
])('%s: %s is refused by its name, whatever the bytes are', async (name, value) => {
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

test('so is a body without any type', async () => {
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
])('%s is taken, also as identity', async contentType => {
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
