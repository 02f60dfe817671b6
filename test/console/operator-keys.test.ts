import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { type OperatorScope, operatorScopes } from '../../src/base/domain/operator-scope.ts'
import { operatorEndpoints } from '../../src/http/endpoints/operator/operator-endpoints.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { setTierPriceGroup, writePriceGroup } from '../../src/money/accounts/price-groups.ts'
import { drawOperatorKey } from '../../src/operator/operator-keys.ts'
import { BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey } from '../harness/hosters.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp({
  yaml: 'hosters: { allow_private_urls: true }\nreports: { requests_per_minute: 100000 }\n',
})
const ID = '00000000-0000-4000-8000-000000000000'

let ada: { browser: BrowserClient; personId: string }
let bob: { browser: BrowserClient; personId: string }
let auditor: { browser: BrowserClient; personId: string }
beforeAll(async () => {
  ada = await signedInOperator(app)
  bob = await signedInOperator(app)
  auditor = await signedInOperator(app)
  await setRole(auditor.personId, 'auditor')
})

const setRole = (personId: string, role: string | null) =>
  app.database.pool.query('UPDATE person SET installation_role = $2 WHERE person_id = $1', [personId, role])

/** Makes a key like the command line. */
async function keyOf(personId: string, scopes: readonly OperatorScope[], expiresAt: Date | null = null) {
  const drawn = drawOperatorKey()
  const { rows } = await app.database.pool.query<{ verdict: string }>(
    "SELECT issue_operator_key_as(NULL, $1, $2, 'test', $3, $4, $5, $6, NULL) AS verdict",
    [drawn.keyId, personId, drawn.hash, drawn.hint, scopes, expiresAt],
  )
  expect(rows).toEqual([{ verdict: 'made' }])
  return drawn
}

async function admin(key: string, method: string, path: string, body?: object, headers: Record<string, string> = {}) {
  return fetch(`${app.url}/v1/admin/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
}
const read = async (response: Response) => {
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text)
}

const doors = operatorEndpoints({} as never).map(({ method, path, operatorScope, installation }) => ({
  method,
  path: path.slice('/console/api/operator/'.length).replace(/:\w+/g, ID),
  scope: operatorScope ?? null,
  isRead: installation === 'read',
}))

/** How an address answers: that the caller is unknown, not allowed, or let in. */
async function outcome(response: Response): Promise<string> {
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel()
    return 'in'
  }
  const text = await response.text()
  const code = text.startsWith('{') ? (JSON.parse(text) as { error?: { code: string } }).error?.code : undefined
  const refusals = ['invalid_operator_key', 'insufficient_scope', 'not_signed_in', 'role_not_allowed', 'not_found']
  if (response.status === 404 && code === 'not_found' && text.includes('No endpoint serves')) return 'no address'
  if (response.status === 405) return 'no address'
  return code !== undefined && code !== 'not_found' && refusals.includes(code) ? code : 'in'
}

test('every address of operators lets in whom it should, and nobody else', async () => {
  expect(doors.length).toBeGreaterThan(60)
  const customer = await app.customer()
  const admins = await transaction(app.database.pool, sql =>
    issueKey(sql, { customerId: customer.customerId, name: 'admin', scopes: ['manage'] }),
  )
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:9' })
  const owner = await signedInMember(app, customer.customerId)
  const { rows } = await app.database.pool.query<{ id: string }>(
    'SELECT person_id AS id FROM person WHERE email = $1',
    [owner.email],
  )
  await addHosterMember(app.database.pool, { hosterId, personId: rows[0]!.id, role: 'owner' })
  const revoked = await keyOf(ada.personId, operatorScopes)
  await app.database.pool.query('SELECT revoke_operator_key_as(NULL, $1, NULL)', [revoked.keyId])
  const keys: [name: string, key: string, may: OperatorScope[] | null][] = [
    ['a customer', customer.key, null],
    ['a customer, manage', admins.key, null],
    ['a hoster', (await hosterKey(app, hosterId, ['manage'])).key, null],
    ['an agent of a hoster', (await hosterKey(app, hosterId, ['serve'])).key, null],
    ['a revoked key', revoked.key, null],
    ['an expired key', (await keyOf(ada.personId, operatorScopes, new Date(Date.now() - 1_000))).key, null],
    ['an unknown key', drawOperatorKey().key, null],
    ['nobody', '', null],
    ['an auditor', (await keyOf(auditor.personId, ['read'])).key, ['read']],
  ]
  for (const scope of operatorScopes) keys.push([scope, (await keyOf(ada.personId, [scope])).key, [scope]])
  const sessions: [name: string, browser: BrowserClient, read: string, write: string][] = [
    ['nobody', new BrowserClient(app.url), 'not_signed_in', 'not_signed_in'],
    ['an owner of a customer and a hoster', owner.browser, 'role_not_allowed', 'role_not_allowed'],
    ['an auditor', auditor.browser, 'in', 'role_not_allowed'],
    ['an operator', bob.browser, 'in', 'in'],
  ]
  const wrong: object[] = []
  const note = (door: object, caller: string, expected: string, found: string) => {
    if (found !== expected) wrong.push({ door, caller, expected, found })
  }
  for (const { method, path, scope, isRead } of doors) {
    const door = { method, path }
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    for (const [caller, key, may] of keys) {
      const found = await outcome(await admin(key, method, path, body))
      const expected =
        scope === null
          ? 'no address'
          : may === null
            ? 'invalid_operator_key'
            : may.includes(scope)
              ? 'in'
              : 'insufficient_scope'
      note(door, `key: ${caller}`, expected, found)
      // No key opens the console.
      const inConsole = await fetch(`${app.url}/console/api/operator/${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'sec-fetch-site': 'same-origin' },
      })
      note(door, `key in the console: ${caller}`, 'not_signed_in', await outcome(inConsole))
    }
    for (const [caller, browser, reads, writes] of sessions) {
      note(
        door,
        `session: ${caller}`,
        isRead ? reads : writes,
        await outcome(await browser.send(method, `operator/${path}`, body)),
      )
      if (scope === null || browser.cookie === undefined) continue
      const withCookie = await fetch(`${app.url}/v1/admin/${path}`, { method, headers: { cookie: browser.cookie } })
      note(door, `cookie: ${caller}`, 'invalid_operator_key', await outcome(withCookie))
    }
  }
  expect(wrong).toEqual([])
}, 240_000)

test('people make keys in the console, which shows them once; keys make none', async () => {
  const order = { name: 'billing', scopes: ['money', 'read'], expires_in_days: 90 }
  const made = await read(await ada.browser.post('operator/keys', order))
  expect(made.key).toMatch(/^ok-sy-\w{38}$/)
  const { data } = await read(await admin(made.key, 'GET', 'keys'))
  const shown = data.find((each: { id: string }) => each.id === made.id)
  expect(shown).toMatchObject({ name: 'billing', scopes: ['read', 'money'], person: { id: ada.personId } })
  expect(Date.parse(shown.last_used_at)).toBeGreaterThan(Date.now() - 120_000)
  expect(JSON.stringify(data)).not.toContain(made.key)
  expect((await admin(made.key, 'POST', 'keys', order)).status).toBe(405)
  const forBob = await readError(await ada.browser.post('operator/keys', { ...order, person_id: bob.personId }))
  expect(forBob).toMatchObject({ status: 400, param: 'person_id' })
  const forAuditor = { name: 'x', scopes: ['money'], person_id: auditor.personId }
  expect(await readError(await ada.browser.post('operator/keys', forAuditor))).toMatchObject({ param: 'scopes' })
  await read(await ada.browser.post('operator/keys', { ...forAuditor, scopes: ['read'] }))
  await read(await bob.browser.send('DELETE', `operator/keys/${made.id}`))
  expect(await readError(await admin(made.key, 'GET', 'keys'))).toMatchObject({ code: 'invalid_operator_key' })
  const { rows } = await app.database.pool.query(
    'SELECT action, person_id AS "personId" FROM audit_entry WHERE subject = $1 ORDER BY entry_id',
    [made.id],
  )
  expect(rows).toEqual([
    { action: 'operator_key.issued', personId: ada.personId },
    { action: 'operator_key.revoked', personId: bob.personId },
  ])
})

test('a change by a key is that of its owner, and the log names both', async () => {
  const { key, keyId } = await keyOf(ada.personId, ['customers', 'money', 'supply'])
  const { id } = await read(await admin(key, 'POST', 'customers', { email: 'made@example.com' }))
  await read(await admin(key, 'PATCH', `customers/${id}`, { paused: true }))
  const order = { amount_usd: 5, reason: 'goodwill', is_promotion: true }
  expect(await read(await admin(key, 'POST', `customers/${id}/grants`, order))).toMatchObject({ state: 'granted' })
  const decision = { model: 'a-model', decision: 'approve', reason: 'known' }
  await read(await admin(key, 'POST', 'model-ids', decision))
  const { rows } = await app.database.pool.query(
    `SELECT action, person_id AS "personId" FROM audit_entry WHERE detail->>'by_key_id' = $1 ORDER BY entry_id`,
    [keyId],
  )
  expect(rows).toEqual(
    ['customer.created', 'customer.changed', 'credit.granted', 'model.approved'].map(action => ({
      action,
      personId: ada.personId,
    })),
  )
})

test('a key without the scope of money moves no customer into or out of the prices of a tier', async () => {
  await transaction(app.database.pool, async sql => {
    await writePriceGroup(sql, { name: 'scale-prices', rules: { percent: '-50', models: {} }, reason: 'x' })
    await setTierPriceGroup(sql, 'scale', 'scale-prices')
  })
  const { key } = await keyOf(ada.personId, ['customers', 'settings'])
  const withMoney = await keyOf(ada.personId, ['customers', 'money'])
  const customer = await app.customer({ tier: 'free' })
  const path = `customers/${customer.customerId}`
  const refused = { status: 403, code: 'insufficient_scope', message: expect.stringContaining('"money"') }
  const added = { email: 'priced@example.com', tier: 'scale' }
  expect(await readError(await admin(key, 'POST', 'customers', added))).toMatchObject(refused)
  await read(await admin(key, 'PATCH', path, { tier: 'standard' }))
  expect(await readError(await admin(key, 'PATCH', path, { tier: 'scale' }))).toMatchObject(refused)
  await read(await admin(withMoney.key, 'PATCH', path, { tier: 'scale' }))
  await read(await admin(key, 'PATCH', path, { tier: 'scale', paused: true }))
  expect(await readError(await admin(key, 'PATCH', path, { tier: 'free' }))).toMatchObject(refused)
  await read(await admin(withMoney.key, 'POST', 'customers', added))
  await read(await ada.browser.send('PATCH', `operator/${path}`, { tier: 'free' }))
  const signup = { version: 0, changes: { 'signup.tier': 'scale' }, reason: 'x' }
  expect(await readError(await admin(key, 'PATCH', 'settings', signup))).toMatchObject({ param: 'changes' })
})

test('a repeat with the same Idempotency-Key gets the same answer and changes nothing', async () => {
  const customer = await app.customer({ creditNanos: 0n })
  const { key } = await keyOf(ada.personId, ['money'])
  const once = { 'idempotency-key': randomUUID() }
  const path = `customers/${customer.customerId}/grants`
  const order = { amount_usd: 3, reason: 'goodwill', is_promotion: true }
  const answers = await Promise.all([1, 2, 3].map(() => admin(key, 'POST', path, order, once)))
  const bodies = await Promise.all(answers.map(read))
  expect(bodies[1]).toEqual(bodies[0])
  expect(bodies[2]).toEqual(bodies[0])
  expect(answers.map(({ headers }) => headers.get('idempotent-replayed')).sort()).toEqual([null, 'true', 'true'].sort())
  expect(await app.balanceNanos(customer)).toBe(3_000_000_000n)
  const other = await admin(key, 'POST', path, { ...order, amount_usd: 4 }, once)
  expect(await readError(other)).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
  const vouchers = { 'idempotency-key': randomUUID() }
  const made = await read(await admin(key, 'POST', 'vouchers', { amount_usd: 1, count: 2 }, vouchers))
  expect(await read(await admin(key, 'POST', 'vouchers', { amount_usd: 1, count: 2 }, vouchers))).toEqual(made)
  const { rows } = await app.database.pool.query<{ text: string }>(
    "SELECT encode(answer, 'escape') AS text FROM operator_answer",
  )
  for (const { code } of made.data) for (const { text } of rows) expect(text).not.toContain(code)
  // Another key is another client.
  const second = await keyOf(ada.personId, ['money'])
  await read(await admin(second.key, 'POST', path, order, once))
  expect(await app.balanceNanos(customer)).toBe(6_000_000_000n)
})

test('a large grant waits for another person, whatever the key', async () => {
  const customer = await app.customer({ creditNanos: 0n })
  const [first, again, others] = [
    await keyOf(ada.personId, ['money']),
    await keyOf(ada.personId, ['money']),
    await keyOf(bob.personId, ['money']),
  ]
  const order = { amount_usd: 500, reason: 'invoice', is_promotion: false }
  const path = `customers/${customer.customerId}/grants`
  const { state, grant_id } = await read(await admin(first.key, 'POST', path, order))
  expect(state).toBe('waiting')
  for (const { key } of [first, again]) {
    const refused = await admin(key, 'POST', `grants/${grant_id}/approve`, {})
    expect(await readError(refused)).toMatchObject({ status: 403, code: 'role_not_allowed' })
  }
  expect(await app.balanceNanos(customer)).toBe(0n)
  await read(await admin(others.key, 'POST', `grants/${grant_id}/approve`, {}))
  expect(await app.balanceNanos(customer)).toBe(500_000_000_000n)
})

test('a key stops at once when its person is blocked or gets another role, which ends it for good', async () => {
  const eve = await signedInOperator(app)
  const { key } = await keyOf(eve.personId, ['read', 'money'])
  expect((await admin(key, 'GET', 'customers')).status).toBe(200)
  const block = (at: string) =>
    app.database.pool.query(`UPDATE person SET disabled_at = ${at} WHERE person_id = $1`, [eve.personId])
  await block('now()')
  expect((await admin(key, 'GET', 'customers')).status).toBe(401)
  await block('NULL')
  expect((await admin(key, 'GET', 'customers')).status).toBe(200)
  await setRole(eve.personId, 'auditor')
  expect((await admin(key, 'GET', 'customers')).status).toBe(401)
  await setRole(eve.personId, 'operator')
  expect((await admin(key, 'GET', 'customers')).status).toBe(401)
})

test('a key of an operator makes no key that records or reads content, and a person none that records', async () => {
  const { customerId } = await app.customer()
  const { key } = await keyOf(ada.personId, ['customers'])
  const make = (fields: object) => admin(key, 'POST', `customers/${customerId}/keys`, { name: 'bot', ...fields })
  expect((await make({})).status).toBe(200)
  expect(await readError(await make({ scopes: ['manage'] }))).toMatchObject({ status: 403, code: 'role_not_allowed' })
  const path = `operator/customers/${customerId}/keys`
  const records = { name: 'bot', record_content: true }
  for (const refused of [await make(records), await ada.browser.post(path, records)])
    expect(await readError(refused)).toMatchObject({ status: 400, param: 'record_content' })
  expect((await ada.browser.post(path, { name: 'bot', scopes: ['manage'] })).status).toBe(200)
})

test('a page of another origin may call the API, as all of /v1', async () => {
  const { key } = await keyOf(ada.personId, ['read'])
  const response = await admin(key, 'GET', 'customers', undefined, { origin: 'https://tools.example.com' })
  expect(response.headers.get('access-control-allow-origin')).toBe('*')
  expect(response.headers.get('cache-control')).toBe('no-store')
})
