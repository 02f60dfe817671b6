import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { HosterReview } from '../../src/wire/api/operator/supply.ts'
import type { HosterFacts } from '../../src/wire/api/public-hosters.ts'
import { type BrowserClient, PASSWORD, signedInMember, signedInOperator, tokenOf } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest, signedInHoster } from '../harness/hosters.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const customer = useCustomer(app)
let operator: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})
const review = async (id: string) => (await (await operator.get(`operator/hosters/${id}`)).json()) as HosterReview
const decide = (id: string, state: string, reason = `Now ${state}.`) =>
  operator.send('PATCH', `operator/hosters/${id}`, { state, reason })
let names = 0
async function application() {
  const { browser } = await signedInMember(app, customer.customerId)
  const answer = await browser.post('hosters', { name: `reviewed-${++names}`, transport: 'agent' })
  return { browser, id: ((await answer.json()) as { id: string }).id }
}

test('an operator reviews an application, rejects it with a reason, and the hoster reads why', async () => {
  const { browser, id } = await application()
  expect(await review(id)).toMatchObject({
    state: 'applied',
    transport: 'agent',
    next_states: ['pending', 'active', 'retired'],
    people: [{ role: 'owner' }],
    verification: { challenge: { passed: false } },
    manifest: null,
  })
  expect((await decide(id, 'retired', 'No such company.')).status).toBe(200)
  const { state, state_changes: changes } = (await (await browser.get(`hosters/${id}`)).json()) as HosterReview
  expect({ state, last: changes[0] }).toMatchObject({
    state: 'retired',
    last: { by: 'operator', reason: 'No such company.' },
  })
  expect(await readError(await decide(id, 'active'))).toMatchObject({ status: 409, code: 'hoster_state_refused' })
})

test('security 2: nobody but operators approves, suspends or sets the trust of a hoster', async () => {
  const { browser, id } = await application()
  for (const change of [{ state: 'active' }, { trust_score: 1 }]) {
    const refused = await browser.send('PATCH', `operator/hosters/${id}`, change)
    expect(await readError(refused)).toMatchObject({ status: 403, code: 'role_not_allowed' })
  }
  expect(await readError(await browser.get(`operator/hosters/${id}`))).toMatchObject({ code: 'role_not_allowed' })
  expect(await review(id)).toMatchObject({ state: 'applied', trust_score: 0 })
})

test('security 2: the members and keys of one hoster change no other one', async () => {
  const [mine, other] = [
    await app.hoster({ baseUrl: upstream.baseUrl }),
    await app.hoster({ baseUrl: upstream.baseUrl }),
  ]
  const { browser } = await signedInHoster(app, mine)
  const { key: theirs, keyId } = await hosterKey(app, other)
  const before = await review(other)
  const attempts = [
    browser.send('PUT', `hosters/${other}/manifest`, { models: [] }),
    browser.send('PUT', `hosters/${other}/server`, { transport: 'agent' }),
    browser.post(`hosters/${other}/state`, { state: 'retired' }),
    browser.post(`hosters/${other}/keys`, { name: 'x', scopes: ['manage'] }),
    browser.send('DELETE', `hosters/${other}/keys/${keyId}`),
    browser.post(`hosters/${other}/people`, { email: 'a@example.com', role: 'owner' }),
  ]
  for (const attempt of attempts)
    expect(await readError(await attempt)).toMatchObject({ status: 404, code: 'hoster_not_found' })
  const { key } = await hosterKey(app, mine, ['manage'])
  const foreign = await hosterRequest(app, key, `hoster/keys/${keyId}`, { method: 'DELETE' })
  expect(await readError(foreign)).toMatchObject({ status: 404, code: 'not_found' })
  expect((await hosterRequest(app, theirs, 'hoster')).status).toBe(200)
  expect(await review(other)).toEqual(before)
  // The refused changes are one entry of the audit log, and the operator's look at the hoster is another.
  const { rows } = await app.database.pool.query<{ action: string }>(
    "SELECT action FROM audit_entry WHERE detail->>'hoster_id' = $1 AND action IN ('hoster.change_refused', 'hoster.viewed') ORDER BY 1",
    [other],
  )
  expect(rows.map(({ action }) => action)).toEqual(['hoster.change_refused', 'hoster.viewed'])
})

test.each([
  ['owner', ['keys', 'people', 'verification'], []],
  ['developer', ['keys', 'verification'], ['people']],
  ['billing', ['verification'], ['keys', 'people']],
  ['viewer', ['verification'], ['keys', 'people']],
] as const)('a member with the role %s', async (role, allowed, refused) => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser } = await signedInHoster(app, id, role)
  for (const path of allowed) expect((await browser.get(`hosters/${id}/${path}`)).status, path).toBe(200)
  for (const path of refused)
    expect(await readError(await browser.get(`hosters/${id}/${path}`))).toMatchObject({ code: 'role_not_allowed' })
  const paused = await browser.post(`hosters/${id}/state`, { state: 'paused' })
  expect(paused.status).toBe(role === 'owner' || role === 'developer' ? 200 : 403)
})

test('owners change and remove members, nobody is added without an invitation, and an owner stays', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser, email } = await signedInHoster(app, id)
  const { browser: stranger, email: other } = await signedInMember(app, customer.customerId)
  const set = (address: string, role: string | null) => browser.post(`hosters/${id}/people`, { email: address, role })
  // A person with an account here is as unknown as one without.
  const refusals = await Promise.all(
    [set(other, 'owner'), set('nobody@example.com', 'owner')].map(async each => readError(await each)),
  )
  expect(refusals[0]).toMatchObject({ status: 404, code: 'not_found', param: 'email' })
  expect({ ...refusals[1], requestId: '' }).toEqual({ ...refusals[0], requestId: '' })
  expect(await (await stranger.get('hosters')).json()).toMatchObject({ data: [] })
  const made = await browser.post(`hosters/${id}/invites`, { email: other, role: 'viewer' })
  const token = tokenOf(((await made.json()) as { url: string }).url)
  expect((await stranger.post('join', { token, password: PASSWORD })).status).toBe(200)
  const changed = (await (await set(other.toUpperCase(), 'developer')).json()) as { data: object[] }
  expect(changed.data).toMatchObject([
    { email, role: 'owner' },
    { email: other, role: 'developer' },
  ])
  expect(await readError(await set(email, null))).toMatchObject({ status: 409, code: 'last_owner' })
  await app.database.pool.query("UPDATE hoster_member SET role = 'owner' WHERE hoster_id = $1", [id])
  expect((await set(email, null)).status).toBe(200)
  expect((await browser.get(`hosters/${id}`)).status).toBe(404)
})

test('a viewer leaves, and the keys of members who leave end with those that they made, unless they are handed over', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser } = await signedInHoster(app, id)
  const viewer = await signedInHoster(app, id, 'viewer')
  expect(await (await viewer.browser.post(`hosters/${id}/leave`)).json()).toMatchObject({ data: [] })
  expect((await viewer.browser.get(`hosters/${id}`)).status).toBe(404)
  expect(await readError(await browser.post(`hosters/${id}/leave`))).toMatchObject({ code: 'last_owner' })

  const issue = async (from: typeof browser, scopes: string[]) =>
    ((await (await from.post(`hosters/${id}/keys`, { name: scopes[0], scopes })).json()) as { key: string }).key
  const removal = async (keys?: string) => {
    const member = await signedInHoster(app, id, 'developer')
    const [manage, read] = [await issue(member.browser, ['manage']), await issue(member.browser, ['read'])]
    const made = await hosterRequest(app, manage, 'hoster/keys', {
      method: 'POST',
      body: { name: 'made by a key', scopes: ['read'] },
    })
    expect(made.status).toBe(200)
    const { key: second } = (await made.json()) as { key: string }
    const body = { email: member.email, role: null, ...(keys !== undefined && { keys }) }
    expect((await browser.post(`hosters/${id}/people`, body)).status).toBe(200)
    await app.app.noticeChanges()
    return Promise.all([manage, read, second].map(async key => (await hosterRequest(app, key, 'hoster')).status))
  }
  expect(await removal()).toEqual([401, 401, 401])
  expect(await removal('hand_over')).toEqual([401, 200, 200])
})

test('keys of the console work at once and stop within a poll; the log has both', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser } = await signedInHoster(app, id)
  const made = await browser.post(`hosters/${id}/keys`, { name: 'gpu-1', scopes: ['read'] })
  const { id: keyId, key, hint } = (await made.json()) as { id: string; key: string; hint: string }
  expect(key).toMatch(/^hk-sy-/)
  await app.app.noticeChanges()
  expect((await hosterRequest(app, key, 'hoster')).status).toBe(200)
  const listed = await (await browser.get(`hosters/${id}/keys`)).text()
  expect(listed).toContain(hint)
  expect(listed).not.toContain(key)
  expect((await browser.send('DELETE', `hosters/${id}/keys/${keyId}`)).status).toBe(200)
  await app.app.noticeChanges()
  expect((await hosterRequest(app, key, 'hoster')).status).toBe(401)
  const { rows } = await app.database.pool.query<{ action: string; detail: object }>(
    "SELECT action, detail FROM audit_entry WHERE detail->>'key_id' = $1 ORDER BY entry_id",
    [keyId],
  )
  expect(rows.map(({ action }) => action)).toEqual(['hoster.key_issued', 'hoster.key_revoked'])
  expect(JSON.stringify(rows)).not.toContain(key)
})

test('customers read the public facts of hosters, and no address or key', async () => {
  // With the features of its manifest, so that nothing waits for probes.
  const id = await app.hoster({ baseUrl: upstream.baseUrl, trustScore: 0.85, models: [{ features: ['chat'] }] })
  const { key } = await hosterKey(app, id, ['manage'])
  const model = {
    id: 'test-model',
    name: 'Test model',
    context_length: 32_768,
    max_output_length: 8_192,
    quantization: 'fp8',
    pricing: { prompt: '0.000001', completion: '0.000002' },
  }
  const policy = { trains_on_data: false, retention_days: 30 }
  const body = { region: 'SE', data_policy: policy, models: [model] }
  expect((await hosterRequest(app, key, 'hoster/manifest', { method: 'PUT', body })).status).toBe(200)
  const one = await app.get(customer, `/v1/hosters/${id}`)
  const text = await one.text()
  const facts = JSON.parse(text) as HosterFacts
  expect(facts).toMatchObject({
    state: 'active',
    since: expect.any(String),
    region: 'SE',
    data_policy: policy,
    trust_score: 0.85,
    models: [{ id: 'test-model', name: 'Test model', quantization: 'fp8', pricing: { prompt: '0.000001' } }],
  })
  expect(text).not.toMatch(/127\.0\.0\.1|base_url|key/)
  const { data } = (await (await app.get(customer, '/v1/hosters')).json()) as { data: HosterFacts[] }
  expect(data.find(each => each.id === id)).toEqual(facts)
  const { id: unseen } = await application()
  expect(data.map(each => each.id)).not.toContain(unseen)
  for (const path of [unseen, randomUUID(), 'x'])
    expect(await readError(await app.get(customer, `/v1/hosters/${path}`))).toMatchObject({ code: 'hoster_not_found' })
  expect((await fetch(`${app.url}/v1/hosters`)).status).toBe(401)
})

test('a suspended hoster gets no requests until it is resumed', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: 'suspended-model' }] })
  const chat = { model: 'suspended-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  const status = async () => {
    await app.app.noticeChanges()
    const response = await app.chat(customer, chat)
    await response.arrayBuffer()
    return response.status
  }
  expect(await status()).toBe(200)
  await decide(id, 'suspended', 'Complaints.')
  expect(await status()).toBe(404)
  await decide(id, 'active')
  expect(await status()).toBe(200)
})
