import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mintApiKey } from '../../src/auth/api-key.ts'
import { issueKey, listKeys, revokeKey } from '../../src/auth/keys.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { rawRequest } from '../harness/raw-request.ts'
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

const chat = (headers: Record<string, string>) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })

/** The same with header lines as they are. */
const rawChat = (lines: string[]) =>
  rawRequest(
    gateway.url,
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n` +
      `${lines.map(line => `${line}\r\n`).join('')}\r\n${body}`,
  )

/** Word for word the same for every fault: a guess learns nothing from it. */
const refusal = {
  error: {
    message: 'Incorrect API key. Send "Authorization: Bearer <API_KEY>" with a valid, unrevoked key.',
    type: 'invalid_request_error',
    param: null,
    code: 'invalid_api_key',
  },
}

describe('one answer for every wrong credential', () => {
  const rows: [name: string, headers: () => Record<string, string>][] = [
    ['no header', () => ({})],
    ['Basic', () => ({ authorization: `Basic ${btoa(`user:${customer.key}`)}` })],
    ['an empty Authorization', () => ({ authorization: '' })],
    ['Bearer without a key', () => ({ authorization: 'Bearer' })],
    ['Bearer and blanks', () => ({ authorization: 'Bearer   ' })],
    ['the key without Bearer', () => ({ authorization: customer.key })],
    ['two keys after Bearer', () => ({ authorization: `Bearer ${customer.key} ${customer.key}` })],
    ['a key of somebody else', () => ({ authorization: 'Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789' })],
    ['a wrong checksum', () => ({ authorization: `Bearer ${withOtherEnd(customer.key)}` })],
    ['other letter case', () => ({ authorization: `Bearer ${customer.key.toLowerCase()}` })],
    ['a right checksum of an unknown key', () => ({ authorization: `Bearer ${mintApiKey()}` })],
    ['SQL', () => ({ authorization: "Bearer ' OR 1=1--" })],
    ['a very long key', () => ({ authorization: `Bearer ${'x'.repeat(8_000)}` })],
    ['a wrong x-api-key', () => ({ 'x-api-key': mintApiKey() })],
  ]
  test.each(rows)('%s', async (_name, headers) => {
    const response = await chat(headers())
    expect(response.status).toBe(401)
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(await response.json()).toEqual(refusal)
  })

  test('a wrong Authorization is not made good by a right x-api-key', async () => {
    const response = await chat({ authorization: 'Bearer x', 'x-api-key': customer.key })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('the key in the query', async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions?api_key=${customer.key}`, { method: 'POST', body })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('two Authorization headers, even when both are right', async () => {
    const good = `Authorization: Bearer ${customer.key}`
    expect((await rawChat([good])).status).toBe(200)
    for (const second of [good, 'authorization: Bearer x', 'AUTHORIZATION: Basic x']) {
      const { status, body: refused } = await rawChat([good, second])
      expect([status, JSON.parse(refused)]).toEqual([401, refusal])
    }
  })

  test('a revoked key, a moment after it worked', async () => {
    const { key } = await gateway.customer()
    expect((await chat({ authorization: `Bearer ${key}` })).status).toBe(200)
    const { keyId } = (await listKeys(gateway.database.pool)).find(({ hint }) => key.endsWith(hint.slice(-4)))!
    await revokeKey(gateway.database.pool, keyId)
    await gateway.app.noticeChanges()
    const response = await chat({ authorization: `Bearer ${key}` })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('an expired key', async () => {
    const { customerId } = customer
    const expiresAt = new Date(Date.now() - 1_000)
    const { key } = await issueKey(gateway.database.pool, { customerId, name: 'old', expiresAt })
    const response = await chat({ authorization: `Bearer ${key}` })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('the key of a customer who was shut out', async () => {
    const { customerId, key } = await gateway.customer()
    await gateway.database.pool.query('UPDATE customer SET disabled_at = now() WHERE customer_id = $1', [customerId])
    const response = await chat({ authorization: `Bearer ${key}` })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })
})

test('a right key is accepted as Bearer in any letter case, as x-api-key and as api-key', async () => {
  for (const headers of [
    { authorization: `Bearer ${customer.key}` },
    { authorization: `bearer  ${customer.key}` },
    { 'x-api-key': customer.key },
    { 'api-key': customer.key },
  ] as Record<string, string>[]) {
    expect((await chat(headers)).status).toBe(200)
  }
})

test('a stranger is refused before his body is read', async () => {
  const { status } = await rawRequest(
    gateway.url,
    'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n{',
  )
  expect(status).toBe(401)
})

test('every address that needs a key asks for it', async () => {
  for (const path of [
    '/v1/usage',
    '/v1/usage/tokens',
    '/v1/usage/breakdown',
    '/v1/usage/export',
    '/v1/models',
    '/v1/models/test-model',
  ]) {
    const response = await fetch(gateway.url + path)
    expect([path, response.status, await response.json()]).toEqual([path, 401, refusal])
  }
})

test('no upstream heard of any of them, and nobody paid', async () => {
  const served = (await gateway.usage(customer)).length
  expect(upstream.requests.length).toBe(served + 1)
})

function withOtherEnd(key: string): string {
  return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
}
