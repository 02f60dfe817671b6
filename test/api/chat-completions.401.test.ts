import { describe, expect, test } from 'vitest'
import { mintApiKey } from '../../src/identity/auth/api-key.ts'
import { issueKey, listKeys, revokeKey } from '../../src/identity/auth/keys.ts'
import { testOffer } from '../harness/app.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway)

const body = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

const chat = (headers: Record<string, string>) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })

/** Sends the same chat with exactly these header lines. */
const rawChat = (lines: string[]) =>
  rawRequest(
    gateway.url,
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n` +
      `${lines.map(line => `${line}\r\n`).join('')}\r\n${body}`,
  )

/** The same for every fault, so that a guess learns nothing. */
const refusal = {
  error: {
    message:
      'The API key is missing, unknown, revoked or expired, or its account is disabled. Send a valid key as "Authorization: Bearer <API_KEY>", in x-api-key or in x-goog-api-key.',
    type: 'invalid_request_error',
    param: null,
    code: 'invalid_api_key',
  },
}

describe('every wrong credential gets the same answer', () => {
  const rows: [name: string, headers: () => Record<string, string>][] = [
    ['no header', () => ({})],
    ['Basic', () => ({ authorization: `Basic ${btoa(`user:${customer.key}`)}` })],
    ['an empty Authorization', () => ({ authorization: '' })],
    ['Bearer without a key', () => ({ authorization: 'Bearer' })],
    ['Bearer and spaces', () => ({ authorization: 'Bearer   ' })],
    ['the key without Bearer', () => ({ authorization: customer.key })],
    ['two keys after Bearer', () => ({ authorization: `Bearer ${customer.key} ${customer.key}` })],
    ['a key of another service', () => ({ authorization: 'Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789' })],
    ['a wrong checksum', () => ({ authorization: `Bearer ${withWrongChecksum(customer.key)}` })],
    ['other letter case', () => ({ authorization: `Bearer ${customer.key.toLowerCase()}` })],
    ['an unknown key with a valid checksum', () => ({ authorization: `Bearer ${mintApiKey()}` })],
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

  test('a wrong Authorization with a valid x-api-key', async () => {
    const response = await chat({ authorization: 'Bearer x', 'x-api-key': customer.key })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('the key in the query', async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions?api_key=${customer.key}`, { method: 'POST', body })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })

  test('two Authorization headers, even if both are valid', async () => {
    const valid = `Authorization: Bearer ${customer.key}`
    expect((await rawChat([valid])).status).toBe(200)
    for (const second of [valid, 'authorization: Bearer x', 'AUTHORIZATION: Basic x']) {
      const { status, body: refused } = await rawChat([valid, second])
      expect([status, JSON.parse(refused)]).toEqual([401, refusal])
    }
  })

  test('a revoked key that worked a moment before', async () => {
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

  test('the key of a disabled customer', async () => {
    const { customerId, key } = await gateway.customer()
    await gateway.database.pool.query('UPDATE customer SET disabled_at = now() WHERE customer_id = $1', [customerId])
    const response = await chat({ authorization: `Bearer ${key}` })
    expect([response.status, await response.json()]).toEqual([401, refusal])
  })
})

test('a valid key is accepted as Bearer in any letter case, as x-api-key and as api-key', async () => {
  for (const headers of [
    { authorization: `Bearer ${customer.key}` },
    { authorization: `bearer  ${customer.key}` },
    { 'x-api-key': customer.key },
    { 'api-key': customer.key },
  ] as Record<string, string>[]) {
    expect((await chat(headers)).status).toBe(200)
  }
})

test('a request without a key is refused before its body is read', async () => {
  const { status } = await rawRequest(
    gateway.url,
    'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n{',
  )
  expect(status).toBe(401)
})

test('every endpoint that needs a key refuses a request without one', async () => {
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

test('refused requests reach no upstream and are not billed', async () => {
  const served = (await gateway.usage(customer)).length
  expect(upstream.requests.length).toBe(served + 1)
})

function withWrongChecksum(key: string): string {
  return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
}
