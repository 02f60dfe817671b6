import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import type { AuditLogPage, AuditLogState } from '../../src/wire/api/operator/log.ts'
import type { OperatorMoney } from '../../src/wire/api/operator/money.ts'
import type { Overview } from '../../src/wire/api/operator/overview.ts'
import type { OperatorHosters, OperatorModels, PriceVersions } from '../../src/wire/api/operator/supply.ts'
import type { OperatorSystem } from '../../src/wire/api/operator/system.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const SECRETS = ['smtp-secret-1', 'endpoint-secret-2']
const upstream = useUpstream()
const app = useTestApp(() => ({
  yaml: `
hosters:
  allow_private_urls: true
smtp:
  host: mail.example.com
  user: mailer
  password: ${SECRETS[0]}
endpoints:
  - name: own
    kind: local
    base_url: http://127.0.0.1:9/v1
    api_key: ${SECRETS[1]}
    models:
      - id: own-model
        price_per_million_usd: { input: 1, output: 2 }
        context_tokens: 1000
        max_output_tokens: 100
`,
}))
let operator: BrowserClient
let operatorId: string
let hosterId: string
beforeAll(async () => {
  const signedIn = await signedInOperator(app)
  operator = signedIn.browser
  operatorId = signedIn.personId
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl })
})
const get = async <T>(path: string): Promise<T> => {
  const response = await operator.get(`operator/${path}`)
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()) as T
}
const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }

test('members and auditors cannot change hosters, and members read none of it', async () => {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId)
  for (const path of ['models', 'prices', 'hosters', 'money', 'log', 'log/state', 'system']) {
    expect(await readError(await browser.get(`operator/${path}`))).toMatchObject({ code: 'role_not_allowed' })
  }
  const { browser: auditor, personId } = await signedInOperator(app)
  await app.database.pool.query("UPDATE person SET installation_role = 'auditor' WHERE person_id = $1", [personId])
  const refused = await auditor.send('PATCH', `operator/hosters/${hosterId}`, { state: 'suspended' })
  expect(await readError(refused)).toMatchObject({ code: 'role_not_allowed' })
  expect((await auditor.get('operator/system')).status).toBe(200)
})

test('a new price is a new version that the next request pays, and the log has it', async () => {
  const change = { model: 'test-model', input_usd_per_million: '0.5', output_usd_per_million: 4 }
  const answer = await operator.post(`operator/hosters/${hosterId}/prices`, change)
  expect(await answer.json()).toEqual({ version: 2 })
  await app.app.noticeChanges()
  const { data } = await get<OperatorModels>('models')
  expect(data.find(({ id }) => id === 'test-model')!.offers).toMatchObject([
    {
      provider: 'hoster',
      hoster_id: hosterId,
      input_usd_per_million: 0.5,
      output_usd_per_million: 4,
      trust_score: 0.9,
    },
  ])
  const versions = await get<PriceVersions>('prices?model=test-model')
  expect(versions.data).toMatchObject([
    { version: 2, output_usd_per_million: 4, valid_until: null },
    { version: 1, output_usd_per_million: 2, valid_until: expect.any(String) },
  ])
  const customer = await app.customer()
  await (await app.chat(customer, chat)).arrayBuffer()
  const [row] = await app.settled(customer, 1)
  expect(row!.cost_nanos).toBe(BigInt(row!.input_tokens) * 500n + BigInt(row!.output_tokens) * 4_000n)
  const { data: log } = await get<AuditLogPage>('log?action=price')
  expect(log).toMatchObject([
    { action: 'price.changed', person: { id: operatorId }, detail: { model: 'test-model', version: 2 } },
  ])
})

test.each([
  [{ model: 'test-model', input_usd_per_million: -1, output_usd_per_million: 1 }, 'input_usd_per_million'],
  [{ model: 'test-model', input_usd_per_million: 0.0000001, output_usd_per_million: 1 }, 'input_usd_per_million'],
  [{ model: 'test-model', input_usd_per_million: 1 }, 'output_usd_per_million'],
  [{ model: 'new', input_usd_per_million: 1, output_usd_per_million: 1 }, null],
  [{ model: 'x\0y', input_usd_per_million: 1, output_usd_per_million: 1 }, 'model'],
])('the price %j is refused and changes nothing', async (body, param) => {
  const before = await get<PriceVersions>('prices')
  const refused = await readError(await operator.post(`operator/hosters/${hosterId}/prices`, body))
  expect(refused).toMatchObject({ status: 400, param })
  expect(await get<PriceVersions>('prices')).toEqual(before)
})

test('a suspended hoster gets no requests until it is active again', async () => {
  const path = `operator/hosters/${hosterId}`
  expect((await operator.send('PATCH', path, { state: 'suspended', trust_score: 0.5 })).status).toBe(200)
  await app.app.noticeChanges()
  const modelIds = async () => (await get<OperatorModels>('models')).data.map(({ id }) => id)
  expect(await modelIds()).not.toContain('test-model')
  expect((await get<OperatorHosters>('hosters')).data).toMatchObject([{ state: 'suspended', trust_score: 0.5 }])
  expect((await operator.send('PATCH', path, { state: 'active' })).status).toBe(200)
  await app.app.noticeChanges()
  expect(await modelIds()).toContain('test-model')
  const { data } = await get<AuditLogPage>('log?action=hoster.changed')
  expect(data.at(-1)).toMatchObject({
    detail: { before: { state: 'active', trust_score: 0.9 }, after: { trust_score: 0.5 } },
  })
  const { data: states } = await get<AuditLogPage>('log?action=hoster.state_changed')
  expect(states.slice(0, 2)).toMatchObject([
    { detail: { from: 'suspended', to: 'active', by: 'operator', reason: 'No reason given.' } },
    { detail: { from: 'active', to: 'suspended' } },
  ])
  const unknown = await operator.send('PATCH', `operator/hosters/${randomUUID()}`, { state: 'active' })
  expect(await readError(unknown)).toMatchObject({ status: 404 })
})

test('money by day follows charges, grants and refunds', async () => {
  const customer = await app.customer({ creditNanos: 0n })
  const path = `operator/customers/${customer.customerId}`
  expect(
    (await operator.post(`${path}/grants`, { amount_usd: 3, reason: 'invoice', is_promotion: false })).status,
  ).toBe(200)
  await (await app.chat(customer, chat)).arrayBuffer()
  const [row] = await app.settled(customer, 1)
  const refund = { request_id: row!.request_id, reason: 'cut off' }
  expect((await operator.post(`${path}/refunds`, refund)).status).toBe(200)
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
  const { rows } = await app.database.pool.query<Record<string, number>>(
    `SELECT (sum(cost_nanos) / 1e9)::float8 AS charged, (sum(fee_nanos) / 1e9)::float8 AS revenue,
       ((sum(hoster_share_nanos) - (SELECT sum(hoster_share_nanos) FROM refund)) / 1e9)::float8 AS payable FROM usage_event`,
  )
  const money = await get<OperatorMoney>('money')
  expect(money.payable_usd).toBe(rows[0]!.payable)
  expect(money.days).toMatchObject([
    {
      charged_usd: rows[0]!.charged,
      revenue_usd: rows[0]!.revenue,
      granted_usd: 3,
      refunded_usd: Number(row!.cost_nanos) / 1e9,
      written_off_usd: 0,
    },
  ])
  expect(money.total).toMatchObject({ charged_usd: rows[0]!.charged, granted_usd: 3 })
})

test('the log pages without gaps, filters, and shows a changed entry', async () => {
  const seen: number[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: AuditLogPage = await get(`log?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
    seen.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  expect(seen).toEqual(Array.from({ length: seen.length }, (_, index) => seen.length - index))
  const own = await get<AuditLogPage>(`log?person=${operatorId}&limit=100`)
  expect(new Set(own.data.map(({ person }) => person?.id))).toEqual(new Set([operatorId]))
  expect(await get<AuditLogState>('log/state')).toMatchObject({ entries: seen.length, is_intact: true, breaks: [] })
  const { rows } = await app.database.pool.query<{ subject: string }>(
    'SELECT subject FROM audit_entry WHERE entry_id = 2',
  )
  await app.database.pool.query("UPDATE audit_entry SET subject = 'nobody' WHERE entry_id = 2")
  expect(await get<AuditLogState>('log/state?scope=all')).toMatchObject({ is_intact: false, breaks: [2] })
  expect(await get<AuditLogState>('log/state')).toMatchObject({ is_intact: false, breaks: [2] })
  // The audit at the end of this file checks the log too.
  await app.database.pool.query('UPDATE audit_entry SET subject = $1 WHERE entry_id = 2', [rows[0]!.subject])
  expect(await readError(await operator.get('operator/log?person=ada'))).toMatchObject({ param: 'person' })
})

test('a due job that no node takes is an alarm, a warning and a metric', async () => {
  const { pool } = app.database
  await pool.query(
    "SELECT graphile_worker.add_job('taken_by_nobody', job_key := 'late', run_at := now() - interval '5 minutes')",
  )
  const { alarms } = await get<Overview>('overview')
  expect(alarms).toContainEqual({
    key: 'jobs_late',
    kind: 'jobs_late',
    severity: 'danger',
    message: expect.stringMatching(/^The job taken_by_nobody has been due for 3\d\d s, and no node has taken it/),
    message_codes: [{ code: 'jobs.late', values: { task: 'taken_by_nobody', seconds: expect.any(Number) } }],
    todo: expect.stringContaining('Restart'),
    todo_codes: [{ code: 'alarm.jobs_late.todo', values: {} }],
    link: '/operator/system',
    since: expect.any(String),
  })
  const { checks } = await get<OperatorSystem>('system')
  expect(checks).toContainEqual({
    check: 'jobs',
    state: 'warning',
    detail: expect.stringContaining('taken_by_nobody'),
    detail_codes: [expect.objectContaining({ code: 'jobs.late' })],
  })
  const metrics = await app.app.metrics.metrics()
  expect(Number(/^switchyard_job_delay_seconds (.*)$/m.exec(metrics)![1])).toBeGreaterThanOrEqual(300)
  await pool.query("SELECT graphile_worker.remove_job('late')")
  // A timetable that adds nothing leaves no job that is due.
  const lastRun = (at: string) =>
    pool.query(
      `UPDATE installation SET value = CASE name WHEN 'timetable_runs' THEN '{"sum_platform_days": null}' ELSE (${at})::text END
        WHERE name LIKE 'timetable_%'`,
    )
  await lastRun("now() - interval '1 hour'")
  const { alarms: later } = await get<Overview>('overview')
  expect(later.map(({ message }) => message).join()).toMatch(/No node has added scheduled jobs for 35\d\d s/)
  await lastRun('now()')
})

test('the system shows jobs, checks and settings, and no secret', async () => {
  const system = await vi.waitFor(async () => {
    const found = await get<OperatorSystem>('system')
    expect(found.jobs.map(({ name }) => name)).toContain('sum_platform_days')
    return found
  })
  expect(system.nodes).toMatchObject([{ state: 'alive' }])
  expect(system.checks.find(({ check }) => check === 'gateway role')).toMatchObject({ state: 'ok' })
  expect(system.checks.find(({ check }) => check === 'jobs')).toMatchObject({ state: 'ok' })
  expect(system.settings).toContainEqual({ key: 'smtp.host', value: 'mail.example.com' })
  const everything = await Promise.all(
    ['system', 'models', 'hosters', 'overview', 'money'].map(async path => JSON.stringify(await get(path))),
  )
  for (const secret of SECRETS) expect(everything.join()).not.toContain(secret)
})
