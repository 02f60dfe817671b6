import { expect, test } from 'vitest'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A rotation gives a secret to a person: the removal and the limit of that person must hold for it. The former secret may have leaked.

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'reports: { requests_per_minute: 1000 }',
}))
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }
const graceful = { grace_seconds: 3_600 }

interface Shown {
  readonly id: string
  readonly key: string
  readonly made_by: string | null
}

const json = async <T = Shown>(answered: Promise<Response>) => {
  const response = await answered
  expect(response.status).toBe(200)
  return (await response.json()) as T
}

const send = (key: string, method: string, path: string, body?: object) =>
  fetch(`${gateway.url}/v1/keys${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })

/** A customer with an owner, and two developers of whom the first has a key. */
async function team() {
  const customer = await gateway.customer()
  const { customerId } = customer
  const path = `customers/${customerId}`
  const owner = await signedInMember(gateway, customerId, 'owner')
  const [ada, bob] = [
    await signedInMember(gateway, customerId, 'developer'),
    await signedInMember(gateway, customerId, 'developer'),
  ]
  const made = await json(ada.browser.post(`${path}/keys`, { name: 'of Ada' }))
  const { data } = await json<{ data: { id: string; email: string }[] }>(owner.browser.get(`${path}/people`))
  const idOf = (email: string) => data.find(person => person.email === email)!.id
  const rotate = (browser: BrowserClient, id: string) => json(browser.post(`${path}/keys/${id}/rotate`, graceful))
  const remove = (email: string, keys: 'revoke' | 'hand_over' = 'revoke') =>
    json<object>(owner.browser.send('DELETE', `${path}/people/${idOf(email)}?keys=${keys}`))
  const statuses = async (...keys: string[]) => {
    await gateway.app.noticeChanges()
    return Promise.all(keys.map(async key => (await gateway.get({ customerId, key }, '/v1/key')).status))
  }
  return { customer, path, owner, ada, bob, made, idOf, rotate, remove, statuses }
}

test('the removal of the member who replaced a key ends it', async () => {
  const { customer, path, owner, bob, made, rotate, remove, statuses } = await team()
  const rotated = await rotate(bob.browser, made.id)
  expect(rotated.made_by).toBe(bob.email)
  // A key that no person made, replaced with a key of Bob.
  const ofNobody = await json(gateway.get(customer, '/v1/key'))
  const manage = await json(bob.browser.post(`${path}/keys`, { name: 'manage', scopes: ['manage'] }))
  const byKey = await json(send(manage.key, 'POST', `/${ofNobody.id}/rotate`, graceful))
  const own = await json(owner.browser.post(`${path}/keys`, { name: 'of the owner' }))
  expect(await statuses(rotated.key, byKey.key, own.key)).toEqual([200, 200, 200])
  expect(await remove(bob.email)).toMatchObject({ keys_revoked: 3 })
  expect(await statuses(rotated.key, byKey.key, own.key)).toEqual([401, 401, 200])
})

test('the removal of a member ends the former keys that the member knows, or hands them over', async () => {
  for (const [keys, status] of [
    ['revoke', 401],
    ['hand_over', 200],
  ] as const) {
    const { ada, bob, made, rotate, remove, statuses } = await team()
    const rotated = await rotate(bob.browser, made.id)
    expect(await statuses(made.key, rotated.key)).toEqual([200, 200])
    expect(await remove(ada.email, keys)).toMatchObject({ keys_revoked: 0 })
    expect(await statuses(made.key, rotated.key)).toEqual([status, 200])
  }
})

test('a block of a person stops the keys that the person knows, and no others', async () => {
  const { ada, bob, made, idOf, rotate, statuses } = await team()
  const rotated = await rotate(bob.browser, made.id)
  const block = async (email: string, at: string) => {
    await gateway.database.pool.query(`UPDATE person SET disabled_at = ${at} WHERE person_id = $1`, [idOf(email)])
    await gateway.database.pool.query("UPDATE control_version SET version = version + 1 WHERE topic = 'access'")
  }
  await block(ada.email, 'now()')
  expect(await statuses(made.key, rotated.key)).toEqual([401, 200])
  await block(ada.email, 'NULL')
  await block(bob.email, 'now()')
  expect(await statuses(made.key, rotated.key)).toEqual([200, 401])
})

test('the limit of a member holds for a key that the member has replaced, and not for the former one', async () => {
  upstream.always(answer({ usage: usageOf(50, 50) }))
  const { customer, path, owner, bob, made, idOf, rotate } = await team()
  // A request holds at most 0.0003 USD.
  const limit = { spend_limit_usd: 0.0001, limit_reset: 'monthly' }
  await json(owner.browser.send('PATCH', `${path}/people/${idOf(bob.email)}`, limit))
  const rotated = await rotate(bob.browser, made.id)
  await gateway.app.noticeChanges()
  const chat = (key: string) => gateway.chat({ ...customer, key }, hello)
  expect(await readError(await chat(rotated.key))).toMatchObject({ status: 402 })
  expect((await chat(made.key)).status).toBe(200)
  upstream.always(answer())
})

test('a former key has no scopes, so it cannot replace the key again', async () => {
  const customer: TestCustomer = await gateway.customer({ key: { scopes: ['manage'] } })
  const { id } = await json(gateway.get(customer, '/v1/key'))
  const next = await json(send(customer.key, 'POST', `/${id}/rotate`, graceful))
  await gateway.app.noticeChanges()
  for (const [method, path, body] of [
    ['POST', `/${id}/rotate`, { grace_seconds: 0 }],
    ['POST', '', { name: 'another' }],
    ['PATCH', `/${id}`, { paused: true }],
    ['DELETE', `/${id}`, undefined],
    ['GET', '', undefined],
  ] as const) {
    expect(await readError(await send(customer.key, method, path, body))).toMatchObject({ code: 'insufficient_scope' })
  }
  expect((await gateway.get(customer, '/v1/key')).status).toBe(200)
  expect((await send(next.key, 'GET', '')).status).toBe(200)
})

test.each([
  ['paused', 'paused_at = now()', 'key_paused'],
  ['revoked', 'revoked_at = now()', 'invalid_api_key'],
  ['expired', "expires_at = now() - interval '1 second'", 'invalid_api_key'],
  ['without the scope', "scopes = '{}'", 'insufficient_scope'],
  [
    'replaced',
    "key_hash = sha256(key_hash), former_key_hash = key_hash, former_hint = hint, former_expires_at = now() + interval '1 hour'",
    'insufficient_scope',
  ],
])('a key that a node still remembers, but is %s, changes no keys', async (_, change, code) => {
  const customer: TestCustomer = await gateway.customer({ key: { scopes: ['manage'] } })
  const { id } = await json(gateway.get(customer, '/v1/key'))
  const other = await json(send(customer.key, 'POST', '', { name: 'other' }))
  await gateway.app.noticeChanges()
  expect((await send(customer.key, 'GET', '')).status).toBe(200)
  // Without a new version of the access: the node does not look.
  await gateway.database.pool.query(`UPDATE api_key SET ${change} WHERE key_id = $1`, [id])
  for (const [method, path, body] of [
    ['PATCH', `/${id}`, { paused: false }],
    ['POST', `/${id}/rotate`, { grace_seconds: 0 }],
    ['POST', '', { name: 'another' }],
    ['DELETE', `/${other.id}`, undefined],
  ] as const) {
    expect(await readError(await send(customer.key, method, path, body))).toMatchObject({ code })
  }
})
