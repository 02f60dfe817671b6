import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { OperatorScope } from '../../src/base/domain/operator-scope.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { drawOperatorKey } from '../../src/operator/operator-keys.ts'
import { useCli } from '../cli/use-cli.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

// What is kept of people and customers, handed out and erased over HTTP: the same as by the command line.

const database = useTestDatabase()
const upstream = useUpstream()
const cli = useCli(database)
let app: TestApp
let operator: { browser: BrowserClient; personId: string }
let customer: TestCustomer
let owner: { browser: BrowserClient; email: string; personId: string }
beforeAll(async () => {
  app = await startTestApp({ database, offers: [testOffer(upstream.baseUrl)] })
  operator = await signedInOperator(app)
})
afterAll(() => app?.close())
beforeEach(async () => {
  customer = await app.customer()
  owner = await member('owner')
})

async function member(role: 'owner' | 'viewer', { customerId } = customer) {
  const { browser, email } = await signedInMember(app, customerId, role)
  return { browser, email, personId: await personOf(email) }
}

async function personOf(email: string): Promise<string> {
  const { rows } = await database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [
    email,
  ])
  return rows[0]!.id
}

async function spend(): Promise<void> {
  const messages = [{ role: 'user', content: 'Hello' }]
  await (await app.chat(customer, { model: 'test-model', messages, max_tokens: 10 })).text()
  await app.settled(customer, 1)
}

async function keyWith(...scopes: OperatorScope[]): Promise<string> {
  const { keyId, hash, hint, key } = drawOperatorKey()
  await database.pool.query("SELECT issue_operator_key_as(NULL, $1, $2, 'test', $3, $4, $5, NULL, NULL)", [
    ...[keyId, operator.personId, hash, hint, scopes],
  ])
  return key
}

const admin = (key: string, method: string, path: string, headers: Record<string, string> = {}) =>
  fetch(`${app.url}/v1/admin/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(method === 'POST' && { body: '{}' }),
  })

type Tables = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>

async function tablesOf(response: Response, fileName: string): Promise<Tables> {
  expect(response.status).toBe(200)
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${fileName}"`)
  expect(response.headers.get('cache-control')).toBe('no-store')
  return ((await response.json()) as { tables: Tables }).tables
}

/** Each export leaves an entry, so a later one has more of them; a request also notes when it uses a key. */
function withoutTraces({ audit_entry: _, person_session: __, ...tables }: Tables): Tables {
  return tables
}

async function newestEntry() {
  const { rows } = await database.pool.query(
    'SELECT action, person_id AS "personId", subject, customer_id AS "customerId", detail FROM audit_entry ORDER BY entry_id DESC LIMIT 1',
  )
  return rows[0]
}

async function exportByCommand(kind: 'person' | 'customer', name: string): Promise<Tables> {
  const file = join(cli.directory, `${kind}-${name}.json`)
  const { code, stderr } = await cli.run([kind, 'export', name, file])
  expect(code, stderr).toBe(0)
  return JSON.parse(readFileSync(file, 'utf8')).tables
}

describe('an export', () => {
  test('of the person who asks, of an operator and of the command line has the same', async () => {
    const { browser, email, personId } = owner
    const fileName = `switchyard-person-${personId}.json`
    const own = await tablesOf(await browser.post('person/export'), fileName)
    expect(await newestEntry()).toMatchObject({ action: 'person.exported', personId, subject: email })
    expect(own.person).toMatchObject([{ email, name: 'Ada' }])
    const path = `people/${personId}/export`
    const ofOperator = await tablesOf(await operator.browser.post(`operator/${path}`), fileName)
    expect(await newestEntry()).toMatchObject({ action: 'person.exported', personId: operator.personId })
    const ofKey = await tablesOf(await admin(await keyWith('settings'), 'POST', path), fileName)
    expect(await newestEntry()).toMatchObject({ detail: { by_key_id: expect.anything() } })
    const byCommand = await exportByCommand('person', email)
    expect(Object.keys(byCommand)).toEqual(Object.keys(own))
    for (const other of [ofOperator, ofKey, byCommand]) expect(withoutTraces(other)).toEqual(withoutTraces(own))
  })

  test('of a customer, for its owner, an operator and the command line', async () => {
    await spend()
    const { customerId } = customer
    const fileName = `switchyard-customer-${customerId}.json`
    const own = await tablesOf(await owner.browser.post(`customers/${customerId}/export`), fileName)
    expect(await newestEntry()).toMatchObject({
      ...{ action: 'customer.exported', personId: owner.personId, subject: customerId, customerId },
    })
    expect(own.usage_event).toMatchObject([{ model_id: 'test-model', customer_id: customerId }])
    expect(own.ledger_entry!.length).toBeGreaterThan(0)
    const path = `customers/${customerId}/export`
    const ofOperator = await tablesOf(await operator.browser.post(`operator/${path}`), fileName)
    const ofKey = await tablesOf(await admin(await keyWith('settings'), 'POST', path), fileName)
    const byCommand = await exportByCommand('customer', customerId)
    for (const other of [ofOperator, ofKey, byCommand]) expect(withoutTraces(other)).toEqual(withoutTraces(own))
  })

  test('has no secret, no cost of the operator and no operator', async () => {
    await spend()
    await database.pool.query(
      `INSERT INTO server_error (at, endpoint_id, model_id, outcome, text, customer_id)
       VALUES (now(), 'gpu-1', 'test-model', 'server_error', 'at http://10.9.9.9', $1)`,
      [customer.customerId],
    )
    await database.pool.query(
      `INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, state, requested_by, is_promotion)
       VALUES (gen_random_uuid(), $1, 5, 'ref-1', 'a reason', 'waiting', $2, false)`,
      [customer.customerId, operator.personId],
    )
    const text = await (await owner.browser.post(`customers/${customer.customerId}/export`)).text()
    expect(JSON.parse(text).tables.server_error).toHaveLength(1)
    expect(JSON.parse(text).tables.grant_request).toHaveLength(1)
    expect(text).not.toMatch(/"(\w*_hash|\w*_sealed|totp_\w+|upstream_cost_nanos|costed_nanos)":/)
    expect(text).not.toMatch(/10\.9\.9\.9/)
    expect(text).not.toContain(operator.personId)
  })

  test('of a customer is for its owners only, and of nobody else', async () => {
    const { customerId } = customer
    const viewer = await member('viewer')
    const stranger = await member('owner', await app.customer())
    const refusals: unknown[] = []
    for (const { browser } of [viewer, stranger, operator])
      refusals.push((await readError(await browser.post(`customers/${customerId}/export`))).code)
    expect(refusals).toEqual(['role_not_allowed', 'customer_not_found', 'role_not_allowed'])
    const unknown = '00000000-0000-4000-8000-000000000000'
    expect((await readError(await operator.browser.post(`operator/people/${unknown}/export`))).code).toBe('not_found')
    const none = await operator.browser.post(`operator/customers/${unknown}/export`)
    expect((await readError(none)).code).toBe('customer_not_found')
  })

  test('cannot be asked for by another site, nor by a link', async () => {
    const crossing = { 'sec-fetch-site': 'cross-site' }
    const { browser } = owner
    expect((await readError(await browser.send('POST', 'person/export', {}, crossing))).code).toBe('cross_site_request')
    expect((await browser.get('person/export')).status).toBe(405)
    expect((await browser.get(`customers/${customer.customerId}/export`)).status).toBe(405)
  })

  test('gives its place back when the client leaves, and a third one waits', async () => {
    await database.pool.query(
      `INSERT INTO server_error (at, endpoint_id, model_id, outcome, text, request_id, customer_id)
       SELECT now(), repeat('x', 900), 'test-model', 'server_error', 'x', gen_random_uuid(), $1 FROM generate_series(1, 20000)`,
      [customer.customerId],
    )
    const path = `customers/${customer.customerId}/export`
    // They read nothing, so the gateway cannot send everything.
    const readers = await Promise.all([stuckReader(path), stuckReader(path)])
    const busy = await operator.browser.post(`operator/${path}`)
    expect(busy.status).toBe(429)
    expect(await readError(busy)).toMatchObject({ code: 'too_many_concurrent_requests' })
    for (const socket of readers) socket.destroy()
    await expect
      .poll(async () => (await operator.browser.post(`operator/people/${owner.personId}/export`)).status, {
        timeout: 30_000,
      })
      .toBe(200)
    const tables = await tablesOf(await owner.browser.post(path), `switchyard-customer-${customer.customerId}.json`)
    expect(tables.server_error).toHaveLength(20_000)
  })
})

/** Sends the request of the owner, and reads the head of the answer only. */
function stuckReader(path: string) {
  const { hostname, port } = new URL(app.url)
  return new Promise<ReturnType<typeof connect>>((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    socket.once('error', reject)
    socket.once('data', piece => {
      socket.pause()
      if (piece.toString('latin1').startsWith('HTTP/1.1 200')) resolve(socket)
      else reject(new Error(piece.toString()))
    })
    socket.write(
      `POST /console/api/${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nsec-fetch-site: same-origin\r\ncookie: ${owner.browser.cookie}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
    )
  })
}

describe('an erasure', () => {
  test('of a customer revokes its keys, erases its people and leaves the books exact', async () => {
    await spend()
    const { customerId, key } = customer
    const balanceNanos = await app.balanceNanos(customer)
    const erased = await operator.browser.send('DELETE', `operator/customers/${customerId}`)
    expect(await erased.json()).toEqual({
      ...{ deleted: true, revoked_keys: 1, balance_usd: Number(balanceNanos) / 1e9 },
    })
    expect(await newestEntry()).toMatchObject({
      ...{ action: 'customer.deleted', personId: operator.personId, subject: customerId, customerId },
    })
    expect(await app.balanceNanos(customer)).toBe(balanceNanos)
    const { rows } = await database.pool.query('SELECT email FROM customer WHERE customer_id = $1', [customerId])
    expect(rows).toEqual([{ email: `deleted-${customerId}` }])
    expect((await database.pool.query('SELECT FROM person WHERE email = $1', [owner.email])).rowCount).toBe(0)
    expect((await owner.browser.get('session')).status).toBe(401)
    await expect
      .poll(async () => (await app.get({ customerId, key }, '/v1/credits')).status, { timeout: 30_000 })
      .toBe(401)
    expect((await audit(database.pool)).filter(({ violations }) => violations > 0)).toEqual([])
    const again = await operator.browser.send('DELETE', `operator/customers/${customerId}`)
    expect((await readError(again)).code).toBe('customer_not_found')
    const lost = await operator.browser.post(`operator/customers/${customerId}/export`)
    expect((await readError(lost)).code).toBe('customer_not_found')
  })

  test('of a person ends the sessions, and says what would have no owner', async () => {
    const refused = await operator.browser.send('DELETE', `operator/people/${owner.personId}`)
    const { rows } = await database.pool.query<{ email: string }>('SELECT email FROM customer WHERE customer_id = $1', [
      customer.customerId,
    ])
    expect(await readError(refused)).toMatchObject({
      code: 'last_owner',
      message: expect.stringContaining(rows[0]!.email),
    })
    const second = await member('owner')
    const erased = await operator.browser.send('DELETE', `operator/people/${owner.personId}`)
    expect(await erased.json()).toEqual({ deleted: true, revoked_keys: 0 })
    expect(await newestEntry()).toMatchObject({
      ...{ action: 'person.deleted', personId: operator.personId, subject: owner.personId },
    })
    expect((await owner.browser.get('session')).status).toBe(401)
    expect((await second.browser.get('session')).status).toBe(200)
  })

  test('spares operators, and customers that they belong to', async () => {
    const other = await signedInOperator(app)
    const ofOperator = await operator.browser.send('DELETE', `operator/people/${other.personId}`)
    expect((await readError(ofOperator)).code).toBe('has_role')
    await database.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'viewer')", [
      ...[customer.customerId, other.personId],
    ])
    const ofCustomer = await operator.browser.send('DELETE', `operator/customers/${customer.customerId}`)
    expect((await readError(ofCustomer)).code).toBe('has_role')
  })

  test('with a key is repeated without a second one, and needs its scope', async () => {
    await spend()
    const key = await keyWith('settings')
    const path = `customers/${customer.customerId}`
    const without = await admin(await keyWith('read', 'customers', 'money', 'supply'), 'DELETE', path)
    expect((await readError(without)).code).toBe('insufficient_scope')
    const once = { 'idempotency-key': 'delete-1' }
    const first = await admin(key, 'DELETE', path, once)
    const answer = await first.json()
    expect(answer).toMatchObject({ deleted: true, revoked_keys: 1 })
    const repeat = await admin(key, 'DELETE', path, once)
    expect(repeat.headers.get('idempotent-replayed')).toBe('true')
    expect(await repeat.json()).toEqual(answer)
    const { rows } = await database.pool.query(
      "SELECT FROM audit_entry WHERE action = 'customer.deleted' AND subject = $1",
      [customer.customerId],
    )
    expect(rows).toHaveLength(1)
  })
})
