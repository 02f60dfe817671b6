import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Secret, TOTP } from 'otpauth'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { finishRotation } from '../../src/base/secrets/finish-rotation.ts'
import { isResealed, joinRing, readMark } from '../../src/base/secrets/key-ring-state.ts'
import { findMasterKeys, loadMasterKeys, writeMasterKeys } from '../../src/base/secrets/master-key.ts'
import { type MasterKeys, markOf } from '../../src/base/secrets/master-keys.ts'
import { countSealed } from '../../src/base/secrets/reseal.ts'
import { openSecret } from '../../src/base/secrets/sealed-secret.ts'
import { watchMasterKeys } from '../../src/base/secrets/watch-master-keys.ts'
import { setHosterKey } from '../../src/market/supply/hosters/hosters.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { useCli } from '../cli/use-cli.ts'
import { startTestApp, type TestApp, type TestCustomer } from '../harness/app.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

// Two gateways with data directories of their own, a hoster, people, webhooks and answers: the master key is replaced under them.

const upstream = useUpstream()
const database = useTestDatabase()
const first = useCli(database)
const second = useCli(database)
const silent = { info() {}, warn() {}, error() {} }
const yaml = 'hosters: { allow_private_urls: true }\nalerts: { allow_private_urls: true }\n'
const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
const nodes: TestApp[] = []
const rings: MasterKeys[] = []
const stops: (() => void)[] = []
let nowMs = Date.now()
let customer: TestCustomer
let email: string
let totp: TOTP
let gateway: Pool
let desk: Pool
let oldKey: Buffer

/** A gateway whose keys follow the file in its data directory, as those of a process do. */
async function startNode(dataDir: string): Promise<TestApp> {
  const place = { masterKey: null, dataDir }
  const masterKeys = loadMasterKeys(place)
  const app = await startTestApp({ database, masterKeys, yaml, clock, timeouts: { serverReportIntervalMs: 20 } })
  const watch = watchMasterKeys({ place, onKeys: keys => masterKeys.replace(keys), log: silent, everyMs: 10 })
  nodes.push(app)
  rings.push(masterKeys)
  stops.push(watch.stop)
  return app
}

/** What the job does, on the given node, until it has nothing left. */
const finish = (ring = rings[0]!) =>
  vi.waitFor(async () => {
    const pools = { gateway, desk }
    await finishRotation({ pools, masterKeys: ring, signal: new AbortController().signal, log: silent })
    expect(await isResealed(database.pool)).toBe(true)
  }, WAIT_OPTIONS)

const chat = (app: TestApp, key: string = randomUUID()) =>
  app.chat(
    customer,
    { model: 'test-model', max_tokens: 20, messages: [{ role: 'user', content: 'Hello' }] },
    { headers: { 'idempotency-key': key } },
  )

const signIn = (app: TestApp) => {
  nowMs += 60_000
  return new BrowserClient(app.url).post('sign-in', {
    email,
    password: PASSWORD,
    code: totp.generate({ timestamp: nowMs }),
  })
}

beforeAll(async () => {
  gateway = createPool(database.gatewayConnection, { max: 2, applicationName: 'test gateway' })
  desk = createPool(database.deskConnection, { max: 2, applicationName: 'test desk' })
  const keys = loadMasterKeys({ masterKey: null, dataDir: first.directory })
  oldKey = keys.current
  await joinRing(database.pool, keys, true)
  copyKeys()
  for (const { directory } of [first, second]) await startNode(directory)
  upstream.respondWith((request, response) => {
    if (request.headers.authorization !== 'Bearer sk-hoster') throw new Error('the key of the hoster is wrong')
    return answer()(request, response)
  })
  customer = await nodes[0]!.customer()
  const hosterId = await nodes[0]!.hoster({ baseUrl: upstream.baseUrl })
  await setHosterKey(database.pool, hosterId, 'sk-hoster', rings[0]!)
  for (const node of nodes) await node.app.noticeChanges()
  const member = await signedInMember(nodes[0]!, customer.customerId, 'owner', nowMs)
  email = member.email
  const { secret } = (await (await member.browser.post('factors/totp/start')).json()) as { secret: string }
  totp = new TOTP({ secret: Secret.fromBase32(secret) })
  expect((await member.browser.post('factors/totp', { code: totp.generate({ timestamp: nowMs }) })).status).toBe(200)
  await member.browser.post('factors/totp/start')
  const manager = await nodes[0]!.anotherKey(customer, { scopes: ['manage'] })
  const rule = { kind: 'low_balance', threshold_usd: 1, channel: 'webhook', target: 'http://127.0.0.1:1/hook' }
  const added = await nodes[0]!.app.server.inject({
    method: 'POST',
    url: '/v1/alerts',
    headers: { authorization: `Bearer ${manager.key}` },
    payload: rule,
  })
  expect(added.statusCode, added.body).toBe(200)
  const granted = await first.run([
    'credit',
    'grant',
    customer.customerId,
    '1',
    '--ref',
    'before',
    '--reason',
    'test',
    '--paid',
    '--yes',
  ])
  expect(granted.code, granted.stderr).toBe(0)
})
afterAll(async () => {
  for (const stop of stops) stop()
  for (const node of nodes) await node.stop()
  await gateway.end()
  await desk.end()
})

/** As an administrator copies the file to the other machine. */
function copyKeys(): void {
  const { all } = findMasterKeys({ masterKey: null, dataDir: first.directory })!
  writeMasterKeys(second.directory, all)
}

test('a rotation under load fails no request, no sign-in and no repeat', async () => {
  const kept = randomUUID()
  const before = await (await chat(nodes[0]!, kept)).text()
  let isOver = false
  const statuses = new Set<number>()
  const clients = nodes.map(async app => {
    while (!isOver) statuses.add((await chat(app)).status)
  })
  // The other machine does not have the key yet.
  const early = await first.run(['key-ring', 'rotate', '--wait', '0'])
  expect(early.code).toBe(1)
  expect(early.stderr).toMatch(/not have the key [0-9a-f]{12}.*All still seal with the old key/s)
  expect(await readMark(database.pool)).toBe(markOf(oldKey))
  copyKeys()
  const rotated = await first.run(['key-ring', 'rotate', '--json'])
  expect(rotated.code, rotated.stderr).toBe(0)
  expect(JSON.parse(rotated.stdout)).toMatchObject({ former: markOf(oldKey).slice(0, 12) })
  for (const node of nodes) await node.app.noticeChanges()
  expect(rings.map(ring => markOf(ring.current))).toEqual(Array(2).fill(await readMark(database.pool)))
  expect(await readMark(database.pool)).not.toBe(markOf(oldKey))
  // Old values open before they are sealed again.
  for (const node of nodes) {
    expect(await (await chat(node, kept)).text()).toBe(before)
    expect((await signIn(node)).status).toBe(200)
  }
  await finish()
  isOver = true
  await Promise.all(clients)
  expect([...statuses]).toEqual([200])
  for (const node of nodes) {
    expect(await (await chat(node, kept)).text()).toBe(before)
    expect((await signIn(node)).status).toBe(200)
  }
  for (const { place, former, unknown } of await countSealed(database.pool, rings[0]!))
    expect({ place, former, unknown }).toEqual({ place, former: 0, unknown: 0 })
})

test('a former key is forgotten once nothing is sealed with it, and all goes on with the new one alone', async () => {
  const asked = await first.run(['key-ring', 'forget', '--yes', '--json'])
  expect(asked.code, asked.stderr).toBe(0)
  expect(asked.stderr).toContain('Clients keep compacted conversations')
  expect(JSON.parse(asked.stdout)).toEqual({
    forgotten: [markOf(oldKey).slice(0, 12)],
    removed_here: [markOf(oldKey).slice(0, 12)],
  })
  const there = await second.run(['key-ring', 'forget', '--yes', '--json'])
  expect(JSON.parse(there.stdout)).toEqual({ forgotten: [], removed_here: [markOf(oldKey).slice(0, 12)] })
  for (const { directory } of [first, second])
    expect(readFileSync(join(directory, 'master.key'), 'utf8')).toBe(`${rings[0]!.current.toString('hex')}\n`)
  await vi.waitFor(() => expect(rings.map(({ all }) => all.length)).toEqual([1, 1]), WAIT_OPTIONS)
  const third = await startNode(second.directory)
  expect((await chat(third)).status).toBe(200)
  expect((await signIn(third)).status).toBe(200)
  const { rows } = await database.pool.query<{ id: string; sealed: Buffer }>(
    'SELECT rule_id AS id, secret_sealed AS sealed FROM alert_rule',
  )
  for (const { id, sealed } of rows)
    expect(openSecret(rings[2]!, sealed, { ownerId: id, purpose: 'webhook_secret' })).toMatch(/^whsec_/)
  // The evidence of the former key was signed again.
  const findings = await audit(database.pool, {
    isEvidence: createCreditEvidence(rings[2]!.derived('evidence of credit')).isValid,
  })
  expect(findings.filter(({ violations }) => violations > 0)).toEqual([])
})

test('the log names the rotation, and status shows keys, nodes and values', async () => {
  const { rows } = await database.pool.query<{ action: string }>(
    "SELECT action FROM audit_entry WHERE action LIKE 'master_key.%' ORDER BY entry_id",
  )
  expect(rows.map(({ action }) => action)).toEqual(['master_key.rotated', 'master_key.forgotten'])
  const { stdout } = await first.run(['key-ring', 'status', '--json'])
  const shown = JSON.parse(stdout)
  expect(shown.keys.map(({ state, is_here }: { state: string; is_here: boolean }) => [state, is_here])).toEqual(
    expect.arrayContaining([
      ['current', true],
      ['forgotten', false],
    ]),
  )
  expect(shown.nodes.length).toBeGreaterThanOrEqual(3)
  expect(shown.places.map(({ name }: { name: string }) => name)).toContain('person.totp_secret')
  const table = await first.run(['key-ring', 'status'])
  expect(table.stdout).toMatch(/idempotency.answer_sealed +\d+ +0 +0/)
})
