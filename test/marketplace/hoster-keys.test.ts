import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { mintApiKey } from '../../src/identity/auth/api-key.ts'
import { changeHosterState, commandLineActor } from '../../src/market/marketplace/change-hoster-state.ts'
import { revokeHosterKey } from '../../src/market/marketplace/hoster-keys.ts'
import { activateHoster, suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { releaseHoster } from '../../src/market/trust/quarantine-hoster.ts'
import { BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest, signedInHoster } from '../harness/hosters.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }', mayBeCutOff: true })
const customer = useCustomer(app)
let hosterId: string
let key: string
beforeAll(async () => {
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
  key = (await hosterKey(app, hosterId)).key
})

test('a hoster key shows its own hoster', async () => {
  const response = await hosterRequest(app, key, 'hoster')
  expect(await response.json()).toMatchObject({ id: hosterId, state: 'active', endpoint: { transport: 'direct' } })
})

test('security 23: a customer key opens no address of hosters, and a hoster key none of customers', async () => {
  expect(await readError(await app.get(customer, '/v1/hoster'))).toMatchObject({ code: 'invalid_hoster_key' })
  const holder = { customerId: customer.customerId, key }
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
  expect(await readError(await app.chat(holder, chat))).toMatchObject({ status: 401, code: 'invalid_api_key' })
  for (const path of ['/v1/usage', '/v1/models', '/v1/keys', '/v1/credits'])
    expect(await readError(await app.get(holder, path))).toMatchObject({ status: 401, code: 'invalid_api_key' })
})

test('security 2: a member of one hoster finds no other hoster', async () => {
  const other = await app.hoster({ baseUrl: upstream.baseUrl })
  const { browser } = await signedInHoster(app, hosterId)
  expect((await browser.get(`hosters/${hosterId}`)).status).toBe(200)
  for (const id of [other, randomUUID(), 'x'])
    expect(await readError(await browser.get(`hosters/${id}`))).toMatchObject({ status: 404, code: 'hoster_not_found' })
  const { browser: stranger } = await signedInMember(app, customer.customerId)
  expect((await stranger.get(`hosters/${hosterId}`)).status).toBe(404)
  expect(await readError(await new BrowserClient(app.url).get(`hosters/${hosterId}`))).toMatchObject({
    code: 'not_signed_in',
  })
  const { browser: operator } = await signedInOperator(app)
  expect((await operator.get(`hosters/${hosterId}`)).status).toBe(200)
})

test.each(['read', 'manage'] as const)('the scope %s may read', async scope => {
  const { key } = await hosterKey(app, hosterId, [scope])
  expect((await hosterRequest(app, key, 'hoster')).status).toBe(200)
})

test('a key without the scope is refused', async () => {
  const { key } = await hosterKey(app, hosterId, ['serve'])
  const refused = await readError(await hosterRequest(app, key, 'hoster'))
  expect(refused).toMatchObject({ status: 403, code: 'insufficient_scope' })
})

test('revoked and expired keys, and those of a retired hoster, are refused', async () => {
  const revoked = await hosterKey(app, hosterId)
  expect((await hosterRequest(app, revoked.key, 'hoster')).status).toBe(200)
  await transaction(app.database.pool, sql => revokeHosterKey(sql, hosterId, revoked.keyId))
  const expired = await hosterKey(app, hosterId, ['read'], new Date(Date.now() - 1))
  const gone = await app.hoster({ baseUrl: upstream.baseUrl })
  const retired = await hosterKey(app, gone)
  expect((await hosterRequest(app, retired.key, 'hoster')).status).toBe(200)
  await transaction(app.database.pool, sql =>
    changeHosterState(sql, { ...commandLineActor, hosterId: gone, to: 'retired', reason: 'It left.' }),
  )
  await app.app.noticeChanges()
  for (const { key } of [revoked, expired, retired])
    expect(await readError(await hosterRequest(app, key, 'hoster'))).toMatchObject({ code: 'invalid_hoster_key' })
})

test('security 7: no key of a hoster is compared with another: the database has only the hash of the whole key', async () => {
  const { rows } = await app.database.pool.query<{ row: string }>('SELECT hoster_key::text AS row FROM hoster_key')
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.filter(({ row }) => row.includes(key) || row.includes(key.slice(10, -4)))).toEqual([])
})

test('a guessed key is refused without PostgreSQL', async () => {
  const known = await hosterRequest(app, key, 'hoster')
  expect(known.status).toBe(200)
  const reconnect = app.cutOff()
  try {
    const wrong = key.replace(/.$/, last => (last === 'x' ? 'y' : 'x'))
    expect(await readError(await hosterRequest(app, wrong, 'hoster'))).toMatchObject({ code: 'invalid_hoster_key' })
    const unknown = await readError(await hosterRequest(app, mintApiKey('hk-sy-'), 'hoster'))
    expect(unknown).toMatchObject({ status: 503, code: 'database_unavailable' })
  } finally {
    reconnect()
  }
})

test('a change of the state has its reason in the history and in the audit log, and a refused one has neither', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const change = (to: 'paused' | 'suspended' | 'applied') =>
    transaction(app.database.pool, sql =>
      changeHosterState(sql, { ...commandLineActor, hosterId: id, to, reason: `Now ${to}.` }),
    )
  await change('paused')
  await change('suspended')
  await expect(change('applied')).rejects.toMatchObject({ code: 'hoster_state_refused' })
  const { key } = await hosterKey(app, id)
  const { state_changes: changes } = (await (await hosterRequest(app, key, 'hoster')).json()) as {
    state_changes: object[]
  }
  expect(changes.slice(0, 2)).toMatchObject([
    { from: 'paused', to: 'suspended', by: 'operator', reason: 'Now suspended.' },
    { from: 'active', to: 'paused', by: 'operator', reason: 'Now paused.' },
  ])
  const { rows } = await app.database.pool.query(
    "SELECT detail->>'reason' AS reason FROM audit_entry WHERE detail->>'hoster_id' = $1 AND action = 'hoster.state_changed' ORDER BY entry_id DESC LIMIT 2",
    [id],
  )
  expect(rows).toEqual([{ reason: 'Now suspended.' }, { reason: 'Now paused.' }])
  expect((await app.database.pool.query('SELECT FROM audit_log_break')).rowCount).toBe(0)
})

test('a quarantined hoster stays suspended until an operator ends the quarantine', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { pool } = app.database
  await suspendHoster(pool, id)
  await pool.query("UPDATE hoster SET quarantined_at = now(), quarantine_reason = 'proof' WHERE hoster_id = $1", [id])
  await expect(activateHoster(pool, id)).rejects.toMatchObject({
    code: 'hoster_state_refused',
    message: expect.stringMatching(/quarantine.*hoster release/),
  })
  await releaseHoster(pool, id, 'The operator looked.')
  const { key } = await hosterKey(app, id)
  expect(await (await hosterRequest(app, key, 'hoster')).json()).toMatchObject({ state: 'active' })
})
