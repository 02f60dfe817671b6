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
])('%s is taken', async contentType => {
  const { key } = await gateway.customer()
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': contentType },
    body,
  })
  expect(response.status).toBe(200)
})
