import { transaction } from '../../src/base/db/pool.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { addTraffic } from '../../src/market/marketplace/traffic.ts'
import { insertAudit } from '../../src/market/trust/evidence/audit-store.ts'
import { quarantineHoster } from '../../src/market/trust/quarantine-hoster.ts'
import { writeTrustDays } from '../../src/market/trust/write-trust-days.ts'
import type { TestApp } from './app.ts'
import { type BrowserClient, makeOperator, signedInMember, signedInOperator } from './browser-client.ts'
import { answer, type ScriptedUpstream, status } from './scripted-upstream.ts'

/** What the pages of a busy installation show. */
export interface BusyInstallation {
  readonly customerId: string
  /** Active, suspended, quarantined, and one that has just applied. */
  readonly hosterIds: readonly string[]
  /** Served, failed. */
  readonly requestIds: readonly string[]
  readonly batchId: string | null
  /** Of a person that is the owner of the customer and the hosters, and an operator. */
  readonly client: BrowserClient
}

/** What such an installation needs. */
export const busyYaml = `
hosters: { allow_private_urls: true }
payments: { manual: { instructions: "请注明 {reference}。" } }
payouts: { hold_days: 0, min_usd: 0.01 }
`

/** Fills an installation until each page of customers, hosters and operators has something to show, faults included. */
export async function busyInstallation(app: TestApp, upstream: ScriptedUpstream): Promise<BusyInstallation> {
  const { database } = app
  const customer = await app.customer({ creditNanos: 5_000_000_000n, key: { name: '笔记本' } })
  const { customerId } = customer
  const { browser: client, email } = await signedInMember(app, customerId)
  const { rows } = await database.pool.query<{ id: string }>('SELECT person_id AS id FROM person WHERE email = $1', [
    email,
  ])
  const hosterIds = await hosters(app, upstream, { client, personId: rows[0]!.id })
  const requestIds = await requests(app, upstream, customer)
  await ofCustomer(client, customerId)
  await signedInOperator(app)
  await makeOperator(app, email)
  const batchId = await ofOperator(client, { customerId, email, baseUrl: upstream.baseUrl })
  return { customerId, hosterIds, requestIds, batchId, client }
}

async function hosters(
  app: TestApp,
  { baseUrl }: ScriptedUpstream,
  { client, personId }: { client: BrowserClient; personId: string },
): Promise<string[]> {
  const { pool } = app.database
  const ids: string[] = []
  for (const name of ['active', 'suspended', 'quarantined']) {
    const hosterId = await app.hoster({ baseUrl, models: [{ modelId: `${name}-model` }] })
    await addHosterMember(pool, { hosterId, personId, role: 'owner' })
    ids.push(hosterId)
  }
  const [active, suspended, quarantined] = ids as [string, string, string]
  await suspendHoster(pool, suspended)
  const proof = { canary: { p: 1e-9 } } as unknown as Parameters<typeof quarantineHoster>[3]
  await transaction(pool, sql => quarantineHoster(sql, quarantined, ['canary'], proof))
  const clock = { epochMs: () => Date.now(), monotonicMs: () => performance.now() }
  for (const [kind, hasPassed] of [
    ['canary', true],
    ['meter', false],
  ] as const) {
    const result = { kind, hasPassed, eValues: [1], statistic: 0.2, sample: 1 }
    await insertAudit(pool, { ...result, hosterId: active, modelId: 'active-model', atMs: Date.now() })
  }
  await writeTrustDays({ pool, clock })
  // As if the day had ended long ago.
  await pool.query('UPDATE hoster_trust_day SET day = day - 2')
  await ok(client.post(`hosters/${active}/keys`, { name: 'gpu-1', scopes: ['serve'] }))
  await ok(client.post(`hosters/${active}/invites`, { email: 'colleague@example.com', role: 'viewer' }))
  await ok(client.post(`hosters/${quarantined}/appeal`, { text: '旧权重在缓存中。' }))
  const { id } = (await ok(client.post('hosters', { name: 'garage', transport: 'agent' }))) as { id: string }
  return [...ids, id]
}

async function requests(
  app: TestApp,
  upstream: ScriptedUpstream,
  customer: { customerId: string; key: string },
): Promise<string[]> {
  const ids: string[] = []
  const send = async (model: string) => {
    const body = { model, max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }
    const response = await app.chat(customer, body)
    ids.push(response.headers.get('x-request-id')!)
    await response.arrayBuffer()
  }
  upstream.always(answer())
  await send('test-model')
  await send('active-model')
  upstream.always(status(500, { error: { message: '显存不足' } }))
  await send('test-model')
  await app.settled(customer, 3)
  await transaction(app.database.pool, sql => addTraffic(sql, { fromMs: 0, toMs: Date.now() }))
  return ids
}

async function ofCustomer(client: BrowserClient, customerId: string): Promise<void> {
  const at = `customers/${customerId}`
  await ok(client.post(`${at}/keys`, { name: '夜间', spend_limit_usd: 5, limit_reset: 'monthly' }))
  await ok(client.post(`${at}/alerts`, { kind: 'low_balance', threshold_usd: 1, channel: 'email' }))
  await ok(client.post(`${at}/invites`, { email: 'colleague@example.com', role: 'developer' }))
  const topUp = { driver: 'manual', amount_usd: 25 }
  await ok(client.send('POST', `${at}/top-ups`, topUp, { 'idempotency-key': 'first' }))
}

async function ofOperator(
  client: BrowserClient,
  { customerId, email, baseUrl }: { customerId: string; email: string; baseUrl: string },
): Promise<string | null> {
  const reason = '合同 1042'
  const grant = { reason, is_promotion: false }
  await ok(client.post(`operator/customers/${customerId}/grants`, { ...grant, amount_usd: 3 }))
  // The other operator must approve it.
  await ok(client.post(`operator/customers/${customerId}/grants`, { ...grant, amount_usd: 500 }))
  await ok(client.post('operator/vouchers', { amount_usd: 5, count: 1, note: '展会' }))
  await ok(client.post('operator/price-groups', { name: 'partners', percent: '-10', models: {}, reason }))
  await ok(client.send('PUT', `operator/customers/${customerId}/price-group`, { price_group: 'partners', reason }))
  const settings = {
    ...{ name: 'backup', kind: 'cloud', base_url: baseUrl, monthly_budget_usd: '5' },
    models: [{ id: 'other-model', upstream_model: 'test-model', price_per_million_usd: { input: '1', output: '2' } }],
  }
  await ok(client.post('operator/providers', { settings, reason }))
  await ok(client.send('PATCH', 'operator/settings', { version: 0, changes: { 'routing.attempts_max': '4' }, reason }))
  await ok(client.post('operator/invites', { email: `auditor-${email}`, role: 'auditor' }))
  await ok(client.post('operator/keys', { name: '仪表板', scopes: ['read'] }))
  const { batch } = (await ok(client.post('operator/payouts', { driver: 'csv' }))) as { batch: { id: string } | null }
  return batch?.id ?? null
}

async function ok(answered: Promise<Response>): Promise<unknown> {
  const response = await answered
  const text = await response.text()
  if (!response.ok) throw new Error(`${new URL(response.url).pathname}: ${response.status} ${text}`)
  return JSON.parse(text)
}
