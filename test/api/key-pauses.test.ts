import { expect, test } from 'vitest'
import { hintOf, mintApiKey } from '../../src/identity/auth/api-key.ts'
import { findKeys } from '../../src/identity/auth/keys.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const lines: string[] = []
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'reports: { requests_per_minute: 1000 }\nlog: { level: debug }',
  onLog: line => lines.push(line),
}))
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }

const send = (app: TestApp, { key }: TestCustomer, method: string, path: string, body?: object) =>
  fetch(`${app.url}/v1/keys${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })

const json = async (answered: Promise<Response>) => {
  const response = await answered
  expect(response.status).toBe(200)
  return (await response.json()) as Record<string, unknown> & { id: string; key: string; hint: string }
}

/** A customer with a key that manages and one that is managed. */
async function world(body: object = {}) {
  const customer = await gateway.customer({ key: { scopes: ['manage'] } })
  const made = await json(send(gateway, customer, 'POST', '', { name: 'bot', ...body }))
  const bot = { customerId: customer.customerId, key: made.key }
  return { customer, bot, id: made.id, hint: made.hint }
}

test('a paused key is refused on all nodes, says so, and works again when it is resumed', async () => {
  const { customer, bot, id } = await world()
  // Another node on the same database.
  const other = await startTestApp({
    offers: [testOffer(upstream.baseUrl)],
    database: { ...gateway.database, drop: async () => {} },
  })
  try {
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    expect((await other.chat(bot, hello)).status).toBe(200)
    const paused = await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: true }))
    expect(paused.paused_at).toEqual(expect.any(String))
    for (const node of [gateway, other]) {
      await expect.poll(async () => (await node.chat(bot, hello)).status).toBe(403)
      const refused = await node.chat(bot, hello)
      expect(refused.headers.get('x-should-retry')).toBe('false')
      expect(await readError(refused)).toMatchObject({ code: 'key_paused', message: expect.stringContaining('paused') })
      // Reports are refused, too.
      expect((await node.get(bot, '/v1/key')).status).toBe(403)
    }
    // A second pause keeps the time of the first.
    expect(await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: true }))).toMatchObject({
      paused_at: paused.paused_at,
    })
    expect(await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: false }))).toMatchObject({ paused_at: null })
    for (const node of [gateway, other]) await expect.poll(async () => (await node.chat(bot, hello)).status).toBe(200)
  } finally {
    await other.close()
  }
})

test('a replaced key and the former one work until the grace ends, with one limit and one history', async () => {
  upstream.always(answer({ usage: usageOf(50, 50) }))
  const { customer, bot, id, hint } = await world({ spend_limit_usd: 0.0006, limit_reset: 'monthly' })
  // Each holds at most 0.0003 USD and costs 0.00015 USD.
  expect((await gateway.chat(bot, hello)).status).toBe(200)
  const rotated = await json(send(gateway, customer, 'POST', `/${id}/rotate`, { grace_seconds: 3_600 }))
  const former = { hint, expires_at: expect.any(String) }
  expect(rotated).toMatchObject({ id, name: 'bot', limit_usd: 0.0006, spent_usd: 0.00015, former_key: former })
  expect(rotated.hint).not.toBe(hint)
  const next = { ...bot, key: rotated.key }
  await expect.poll(async () => (await gateway.chat(next, hello)).status).toBe(200)
  expect((await gateway.chat(bot, hello)).status).toBe(200)
  // Together they have spent 0.00045 of 0.0006.
  expect((await gateway.chat(next, hello)).status).toBe(402)
  expect((await gateway.chat(bot, hello)).status).toBe(402)
  expect((await gateway.usage(bot)).map(({ cost_nanos }) => cost_nanos)).toEqual([150_000n, 150_000n, 150_000n])
  await gateway.database.pool.query(
    "UPDATE api_key SET former_expires_at = now() - interval '1 second' WHERE key_id = $1",
    [id],
  )
  await gateway.database.pool.query("UPDATE control_version SET version = version + 1 WHERE topic = 'access'")
  await expect.poll(async () => (await gateway.chat(bot, hello)).status).toBe(401)
  expect(await json(send(gateway, customer, 'POST', '/find', { key: rotated.key }))).toMatchObject({ former_key: null })
  // A leaked key that has stopped is not taken for the one that replaced it.
  expect((await send(gateway, customer, 'POST', '/find', { key: bot.key })).status).toBe(404)
  expect(await findKeys(gateway.database.pool, bot.key)).toEqual([])
  // Without a grace, the former one stops at once.
  const again = await json(send(gateway, customer, 'POST', `/${id}/rotate`, { grace_seconds: 0 }))
  expect(again.former_key).toBeNull()
  await expect.poll(async () => (await gateway.get(next, '/v1/key')).status).toBe(401)
  await expect.poll(async () => (await gateway.get({ ...bot, key: again.key }, '/v1/key')).status).toBe(200)
  upstream.always(answer())
})

test('a key that was stopped never works again: neither by a replacement nor by a resumption', async () => {
  const { customer, bot, id, hint } = await world()
  const status = async (key: string) => (await gateway.get({ ...bot, key }, '/v1/key')).status
  const change = (body: object) => json(send(gateway, customer, 'PATCH', `/${id}`, body))
  await change({ paused: true })
  const refused = await send(gateway, customer, 'POST', `/${id}/rotate`, { grace_seconds: 3_600 })
  expect(await readError(refused)).toMatchObject({ status: 400, param: 'grace_seconds' })
  // The key that takes the place of a paused one works, and the paused one has ended.
  const second = await json(send(gateway, customer, 'POST', `/${id}/rotate`, {}))
  expect(second).toMatchObject({ paused_at: null, former_key: null })
  await gateway.app.noticeChanges()
  expect([await status(second.key), await status(bot.key)]).toEqual([200, 401])
  // A pause ends the former key, so a resumption brings one key back.
  const third = await json(send(gateway, customer, 'POST', `/${id}/rotate`, { grace_seconds: 3_600 }))
  await gateway.app.noticeChanges()
  expect([await status(third.key), await status(second.key)]).toEqual([200, 200])
  expect(await change({ paused: true })).toMatchObject({ former_key: null })
  await change({ paused: false })
  await gateway.app.noticeChanges()
  expect([await status(third.key), await status(second.key)]).toEqual([200, 401])
  // The former key alone is ended, and the audit log says so.
  const fourth = await json(send(gateway, customer, 'POST', `/${id}/rotate`, { grace_seconds: 3_600 }))
  expect(await change({ former_key: null })).toMatchObject({ paused_at: null, former_key: null })
  await gateway.app.noticeChanges()
  expect([await status(fourth.key), await status(third.key)]).toEqual([200, 401])
  const { rows } = await gateway.database.pool.query(
    "SELECT detail FROM audit_entry WHERE subject = $1 AND action = 'key.changed' ORDER BY entry_id DESC LIMIT 1",
    [id],
  )
  expect(rows[0]?.detail).toMatchObject({ before: { former_hint: third.hint }, after: { former_hint: null } })
  expect(hint).not.toBe(fourth.hint)
  // No other way leads there.
  await expect(
    gateway.database.pool.query(
      `UPDATE api_key SET paused_at = now(), former_key_hash = sha256('x'), former_hint = 'x', former_expires_at = now() WHERE key_id = $1`,
      [id],
    ),
  ).rejects.toThrow('api_key_paused_former_check')
})

test('a key that an operator has paused stays paused when it is replaced, and the former one has ended', async () => {
  const { customer, bot, id } = await world()
  const { browser } = await signedInOperator(gateway)
  const path = `operator/customers/${customer.customerId}/keys/${id}`
  await json(browser.post(`${path}/pause`))
  const next = await json(send(gateway, customer, 'POST', `/${id}/rotate`, {}))
  expect(next).toMatchObject({ paused_at: expect.any(String), former_key: null })
  await json(browser.post(`${path}/resume`))
  await gateway.app.noticeChanges()
  expect((await gateway.chat({ ...bot, key: next.key }, hello)).status).toBe(200)
  expect((await gateway.chat(bot, hello)).status).toBe(401)
})

test.each([
  [{ grace_seconds: -1 }, 'grace_seconds'],
  [{ grace_seconds: 2_592_001 }, 'grace_seconds'],
  [{ grace_seconds: 1.5 }, 'grace_seconds'],
  [{ grace: 1 }, 'grace'],
])('a rotation with %j is refused', async (body, param) => {
  const { customer, id } = await world()
  const refused = await send(gateway, customer, 'POST', `/${id}/rotate`, body)
  expect(refused.status).toBe(400)
  expect(await readError(refused)).toMatchObject({ param })
})

test('a key is found by itself, only by its customer, and is neither stored nor logged', async () => {
  const { customer, bot, id } = await world()
  const first = await json(send(gateway, customer, 'POST', '/find', { key: ` ${bot.key} ` }))
  expect(first).toMatchObject({ id, is_former: false })
  const stranger = await gateway.customer({ key: { scopes: ['manage'] } })
  expect((await send(gateway, stranger, 'POST', '/find', { key: bot.key })).status).toBe(404)
  expect((await send(gateway, stranger, 'POST', `/${id}/rotate`, {})).status).toBe(404)
  const wrong = await send(gateway, stranger, 'POST', '/find', { key: `${bot.key}x` })
  expect(wrong.status).toBe(404)
  expect(await wrong.text()).not.toContain(bot.key)
  const rotated = await json(send(gateway, customer, 'POST', `/${id}/rotate`, {}))
  // By a text with it, and by what lists show of it.
  for (const key of [bot.key, `export OPENAI_API_KEY="${bot.key}"`, hintOf(bot.key)])
    expect(await json(send(gateway, customer, 'POST', '/find', { key }))).toMatchObject({ id, is_former: true })
  expect(await json(send(gateway, customer, 'POST', '/find', { key: rotated.hint }))).toMatchObject({
    ...{ id, is_former: false },
  })
  expect((await send(gateway, stranger, 'POST', '/find', { key: rotated.hint })).status).toBe(404)
  // No false all-clear for what is no whole key.
  const part = await send(gateway, customer, 'POST', '/find', { key: rotated.key.slice(0, -4) })
  expect(part.status).toBe(400)
  expect(await readError(part)).toMatchObject({ param: 'key', message: expect.stringContaining('no whole key') })
  await send(gateway, customer, 'DELETE', `/${id}`)
  expect((await send(gateway, customer, 'POST', '/find', { key: rotated.key })).status).toBe(404)
  expect(lines.join('\n')).not.toContain(bot.key)
  const { rows } = await gateway.database.pool.query(
    "SELECT count(*)::int AS n FROM audit_entry a WHERE a::text LIKE '%' || $1 || '%'",
    [bot.key],
  )
  expect(rows).toEqual([{ n: 0 }])
})

test('an operator makes, finds, pauses and resumes keys of customers', async () => {
  const { customerId } = await gateway.customer()
  const { browser } = await signedInOperator(gateway)
  const made = await json(
    browser.post(`operator/customers/${customerId}/keys`, { name: 'made for Ada', spend_limit_usd: 5 }),
  )
  expect(made).toMatchObject({ name: 'made for Ada', limit_usd: 5, made_by: null })
  const bot = { customerId, key: made.key }
  await expect.poll(async () => (await gateway.chat(bot, hello)).status).toBe(200)
  const find = () => json(browser.post('operator/customer-keys/find', { key: made.key }))
  expect(await find()).toMatchObject({ customer_id: customerId, key_id: made.id, state: 'active' })
  const path = `operator/customers/${customerId}/keys/${made.id}`
  expect(await json(browser.post(`${path}/pause`))).toEqual({ paused: true })
  await expect.poll(async () => (await gateway.chat(bot, hello)).status).toBe(403)
  expect(await find()).toMatchObject({ state: 'paused' })
  expect(await json(browser.post(`${path}/resume`))).toEqual({ paused: false })
  await expect.poll(async () => (await gateway.chat(bot, hello)).status).toBe(200)
  await gateway.database.pool.query('UPDATE api_key SET expires_at = now() WHERE key_id = $1', [made.id])
  expect(await find()).toMatchObject({ state: 'expired' })
  expect((await browser.post('operator/customer-keys/find', { key: 'sk-sy-x' })).status).toBe(400)
  expect((await browser.post('operator/customer-keys/find', { key: mintApiKey() })).status).toBe(404)
  const elsewhere = await gateway.customer()
  expect((await browser.post(`operator/customers/${elsewhere.customerId}/keys/${made.id}/pause`)).status).toBe(404)
})

test('only an operator ends the pause of an operator', async () => {
  const { customer, bot, id } = await world()
  const { browser } = await signedInOperator(gateway)
  const developer = await signedInMember(gateway, customer.customerId, 'developer')
  const path = `operator/customers/${customer.customerId}/keys/${id}`
  const ways = [
    () => send(gateway, customer, 'PATCH', `/${id}`, { paused: false }),
    () => developer.browser.send('PATCH', `customers/${customer.customerId}/keys/${id}`, { paused: false }),
  ]
  // Also when the customer has paused the key before, or does so afterwards.
  await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: true }))
  await json(browser.post(`${path}/pause`))
  await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: true, name: 'renamed' }))
  for (const resume of ways) {
    const refused = await resume()
    expect(await readError(refused)).toMatchObject({
      status: 403,
      code: 'key_paused',
      message: expect.stringContaining('operator'),
    })
  }
  await gateway.app.noticeChanges()
  expect((await gateway.chat(bot, hello)).status).toBe(403)
  await json(browser.post(`${path}/resume`))
  await gateway.app.noticeChanges()
  expect((await gateway.chat(bot, hello)).status).toBe(200)
  // The customer's own pause stays its own.
  await json(send(gateway, customer, 'PATCH', `/${id}`, { paused: true }))
  for (const resume of ways) expect((await resume()).status).toBe(200)
  const { rows } = await gateway.database.pool.query(
    "SELECT action FROM audit_entry WHERE subject = $1 AND action IN ('key.paused', 'key.resumed') ORDER BY entry_id",
    [id],
  )
  const actions = ['key.paused', 'key.paused', 'key.resumed', 'key.paused', 'key.resumed']
  expect(rows.map(({ action }) => action)).toEqual(actions)
})

test('a viewer may neither replace nor find keys', async () => {
  const { customerId } = await gateway.customer()
  const { browser } = await signedInMember(gateway, customerId, 'viewer')
  expect((await browser.post(`customers/${customerId}/keys/find`, { key: 'sk-sy-x' })).status).toBe(403)
})
