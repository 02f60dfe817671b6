import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OperatorSettings } from '../../src/wire/api/operator/settings.ts'
import { startTestApp, type TestApp, type TestCustomer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
let nodes: readonly TestApp[] = []
let customer: TestCustomer
let operator: BrowserClient
const yaml = () => `
signup: { tier: standard }
models: { default_max_tokens: 100 }
endpoints:
  - name: server
    kind: local
    base_url: ${upstream.baseUrl}
    models: [{ id: sold, upstream_model: test-model, price_per_million_usd: { input: 1, output: 2 } }]
`
beforeAll(async () => {
  const masterKey = Buffer.alloc(32, 3)
  const first = await startTestApp({ masterKey, yaml: yaml() })
  const others = [1, 2].map(() => startTestApp({ masterKey, database: first.database, yaml: yaml() }))
  nodes = [first, ...(await Promise.all(others))]
  customer = await first.customer({ tier: 'free' })
  operator = (await signedInOperator(first)).browser
})
afterAll(async () => {
  for (const node of nodes.toReversed()) await node.close()
})

const shown = async () => (await (await operator.get('operator/settings')).json()) as OperatorSettings
const fieldOf = async (key: string) => (await shown()).fields.find(field => field.key === key)
const change = async (changes: object, path = 'settings') =>
  operator.send('PATCH', `operator/${path}`, { version: (await shown()).version, changes, reason: 'wanted' })
const done = async (changes: object, path?: string) => {
  const response = await change(changes, path)
  if (response.status !== 200) throw new Error(await response.text())
}
const perMinute = async (node: TestApp) =>
  (
    await node.chat(customer, { model: 'sold', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 })
  ).headers.get('x-ratelimit-limit-requests')
const systemValue = async (key: string) => {
  const { settings } = (await (await operator.get('operator/system')).json()) as {
    settings: { key: string; value: string }[]
  }
  return settings.find(each => each.key === key)?.value
}

test('another limit of a tier counts on all nodes, also for keys that they know', async () => {
  expect(await Promise.all(nodes.map(perMinute))).toEqual(['20', '20', '20'])
  expect(await fieldOf('account_tiers.free.requests_per_minute')).toMatchObject({
    ...{ value: '20', origin: 'default', fallback: '20', moves_money: false },
  })
  await done({ 'account_tiers.free.requests_per_minute': 44 })
  await expect.poll(() => Promise.all(nodes.map(perMinute))).toEqual(['44', '44', '44'])
  expect(await fieldOf('account_tiers.free.requests_per_minute')).toMatchObject({ value: '44', origin: 'managed' })
  const { rows } = await nodes[0]!.database.pool.query(
    "SELECT detail FROM audit_entry WHERE action = 'settings.changed' ORDER BY entry_id DESC LIMIT 1",
  )
  expect(rows).toMatchObject([
    {
      detail: {
        version: 1,
        reason: 'wanted',
        changes: [{ path: expect.stringContaining('requests_per_minute'), after: 44 }],
      },
    },
  ])
  await done({ 'account_tiers.free.requests_per_minute': null })
  await expect.poll(() => Promise.all(nodes.map(perMinute))).toEqual(['20', '20', '20'])
})

test('a tier of its own needs all its limits', async () => {
  const limits = (tier: string) => ({
    [`account_tiers.${tier}.requests_per_minute`]: '7',
    [`account_tiers.${tier}.requests_per_day`]: '70',
    [`account_tiers.${tier}.daily_spend_cap_usd`]: '7.50',
  })
  const { 'account_tiers.gold.requests_per_day': _, ...some } = limits('gold')
  expect((await readError(await change(some))).message).toContain('account_tiers.gold.requests_per_day')
  await done(limits('gold'))
  const { rowCount } = await nodes[0]!.database.pool.query(
    "UPDATE customer SET account_tier = 'gold' WHERE customer_id = $1",
    [customer.customerId],
  )
  expect(rowCount).toBe(1)
  await nodes[0]!.database.pool.query("UPDATE control_version SET version = version + 1 WHERE topic = 'access'")
  await expect.poll(() => Promise.all(nodes.map(perMinute))).toEqual(['7', '7', '7'])
  expect(await systemValue('account_tiers')).toContain('gold')
})

test.each([
  [{ 'signup.tier': 'free' }, 'declared in switchyard.yaml'],
  [{ 'smtp.password': 'x' }, 'cannot be changed here'],
  [{ 'server.port': 1 }, 'cannot be changed here'],
  [{ 'hosters.allow_private_urls': true }, 'cannot be changed here'],
  [{ 'routing.attempts_max': 0 }, 'routing.attempts_max'],
  [{ 'routing.attempts_max': '$' + '{HOME}' }, 'routing.attempts_max'],
  [{ '__proto__.x': 1 }, 'cannot be changed here'],
  [{ 'constructor.x': 1 }, 'cannot be changed here'],
  [{ 'signup.credit_usd': '900' }, 'settings/money'],
])('a change that cannot be is refused: %j', async (changes, text) => {
  const { version } = await shown()
  const { code, message } = await readError(await change(changes))
  expect([code, message]).toEqual(['invalid_value', expect.stringContaining(text)])
  expect((await shown()).version).toBe(version)
})

test('the address for money changes nothing else', async () => {
  const { version } = await shown()
  const changes = { 'platform.fee_percent': 12.5, 'hosters.approval': false }
  const answer = await operator.send('PATCH', 'operator/settings/money', { version, changes, reason: 'x' })
  expect(await readError(answer)).toMatchObject({
    code: 'invalid_value',
    message: expect.stringContaining('moves no money'),
  })
  expect((await shown()).version).toBe(version)
})

test('what moves money has an address of its own, and of two changes of a version one counts', async () => {
  const { version } = await shown()
  const send = (credit: string) =>
    operator.send('PATCH', 'operator/settings/money', {
      ...{ version, changes: { 'signup.credit_usd': credit, 'platform.fee_percent': 12.5 }, reason: 'x' },
    })
  const both = await Promise.all([send('1.25'), send('1.50')])
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
  expect(['1.25', '1.50']).toContain((await fieldOf('signup.credit_usd'))!.value)
  expect(await systemValue('platform.fee_percent')).toBe('12.5')
})

test('the file counts: what it declares later hides what is managed, without a restart', async () => {
  const [node] = nodes
  await done({ 'status.public': true })
  const isPublic = async () => (await fetch(`${node!.url}/status.json`)).status === 200
  expect(await isPublic()).toBe(true)
  node!.writeConfig(`status: { public: false }\n${yaml()}`)
  const reload = await operator.send('POST', 'operator/config/reload', { reason: 'x' })
  expect(await reload.json()).toMatchObject({ needs_restart: [], changes: [{ path: 'status.public', after: false }] })
  expect(await isPublic()).toBe(false)
  expect(await fieldOf('status.public')).toMatchObject({ value: 'false', origin: 'file' })
  node!.writeConfig(yaml())
  await operator.send('POST', 'operator/config/reload', { reason: 'x' })
  expect(await isPublic()).toBe(true)
})
