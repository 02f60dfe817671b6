import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { MemberRole } from '../../src/base/domain/member-role.ts'
import { testOffer } from '../harness/app.ts'
import { BrowserClient, operatorToken, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))

const reads = {
  usage: ['credits', 'usage', 'usage/tokens', 'usage/breakdown', 'usage/requests', 'usage/export', 'models'],
  credits: ['credits/transactions'],
  keys: ['keys', 'key-names'],
  alerts: ['alerts'],
} as const
const allowed: Record<MemberRole, readonly (keyof typeof reads)[]> = {
  owner: ['usage', 'credits', 'keys', 'alerts'],
  developer: ['usage', 'keys', 'alerts'],
  billing: ['usage', 'credits'],
  viewer: ['usage'],
}

test.each(Object.keys(allowed) as MemberRole[])('%s reads what the role allows, and nothing else', async role => {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId, role)
  for (const [right, paths] of Object.entries(reads)) {
    for (const path of paths) {
      const response = await browser.get(`customers/${customerId}/${path}`)
      const expected = allowed[role].includes(right as keyof typeof reads) ? 200 : 403
      expect({ path, status: response.status }).toEqual({ path, status: expected })
      if (expected === 403) expect(await readError(response)).toMatchObject({ code: 'role_not_allowed' })
    }
  }
  const made = await browser.post(`customers/${customerId}/keys`, { name: 'from the console' })
  expect(made.status).toBe(allowed[role].includes('keys') ? 200 : 403)
})

test('the console shows what the API shows', async () => {
  const customer = await app.customer({ key: { scopes: ['manage'] } })
  const { browser } = await signedInMember(app, customer.customerId)
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  await (await app.chat(customer, chat)).arrayBuffer()
  await app.settled(customer, 1)
  for (const path of ['credits', 'usage/breakdown', 'usage/requests', 'keys', 'models']) {
    const [console, api] = await Promise.all([
      browser.get(`customers/${customer.customerId}/${path}`),
      app.get(customer, `/v1/${path}`),
    ])
    expect({ path, body: await console.json() }).toEqual({ path, body: await api.json() })
  }
})

test('a key made, changed and revoked in the console works and stops like any other', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId, 'developer')
  const keys = `customers/${customer.customerId}/keys`
  const made = (await (await browser.post(keys, { name: 'laptop' })).json()) as { id: string; key: string }
  await app.app.noticeChanges()
  const holder = { customerId: customer.customerId, key: made.key }
  expect((await app.get(holder, '/v1/credits')).status).toBe(200)
  const changed = await browser.send('PATCH', `${keys}/${made.id}`, { spend_limit_usd: 5, limit_reset: 'monthly' })
  expect(await changed.json()).toMatchObject({ limit_usd: 5, limit_reset: 'monthly' })
  expect((await browser.send('DELETE', `${keys}/${made.id}`)).status).toBe(200)
  await app.app.noticeChanges()
  expect((await app.get(holder, '/v1/credits')).status).toBe(401)
})

test('other customers do not exist for a member, and no key opens the console', async () => {
  const [mine, other] = [await app.customer(), await app.customer()]
  const { browser } = await signedInMember(app, mine.customerId)
  for (const id of [other.customerId, randomUUID(), 'x', '..%2f..', mine.customerId.replace(/.$/, 'g')]) {
    const response = await browser.get(`customers/${id}/credits`)
    expect(await readError(response)).toMatchObject({ status: 404, code: 'customer_not_found' })
  }
  const withKey = await app.get(mine, `/console/api/customers/${mine.customerId}/credits`)
  expect(await readError(withKey)).toMatchObject({ status: 401, code: 'not_signed_in' })
  const withCookie = await fetch(`${app.url}/v1/credits`, { headers: { cookie: browser.cookie! } })
  expect(withCookie.status).toBe(401)
})

test('an operator reads every customer and changes none without being a member', async () => {
  const customer = await app.customer()
  const { token } = await operatorToken(app, 'reader@example.com')
  const browser = new BrowserClient(app.url)
  await browser.post('welcome', { token, password: PASSWORD })
  expect((await browser.get(`customers/${customer.customerId}/credits/transactions`)).status).toBe(200)
  const refused = await browser.post(`customers/${customer.customerId}/keys`, { name: 'x' })
  expect(await readError(refused)).toMatchObject({ status: 403, code: 'role_not_allowed' })
})

test('a removed member and a disabled person are out at once', async () => {
  const customer = await app.customer()
  const { browser, email } = await signedInMember(app, customer.customerId)
  const { pool } = app.database
  await pool.query('DELETE FROM membership WHERE customer_id = $1', [customer.customerId])
  expect((await browser.get(`customers/${customer.customerId}/credits`)).status).toBe(404)
  await pool.query('UPDATE person SET disabled_at = now() WHERE email = $1', [email])
  expect((await browser.get('session')).status).toBe(401)
  expect((await browser.post('sign-in', { email, password: PASSWORD })).status).toBe(401)
})
