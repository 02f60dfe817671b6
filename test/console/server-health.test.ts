import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { noteFailingServers } from '../../src/market/supply/status/failing-incidents.ts'
import type { Overview, ShownServer } from '../../src/wire/api/operator/overview.ts'
import type { RequestLog } from '../../src/wire/api/operator/requests.ts'
import type { StatusReport } from '../../src/wire/api/status.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { answer, closeAfter, hangUp, html200, stall, status } from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS, WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

// What is shown of servers: three nodes on one database, and servers on real sockets. Each model has a server of its own.

const database = useTestDatabase()
const upstream = useUpstream('file')
const MINUTE_MS = 60_000
let offsetMs = 0
const clock = { epochMs: () => Date.now() + offsetMs, monotonicMs: () => performance.now() + offsetMs }
let apps: TestApp[]
let app: TestApp
let operators: BrowserClient[]
let customer: TestCustomer

beforeAll(async () => {
  const masterKey = randomBytes(32)
  const offer = (modelId: string, baseUrl = upstream.baseUrl, endpointId = `server-${modelId}`) =>
    testOffer(baseUrl, { modelId, endpoint: { endpointId, timeouts: { ...GENEROUS_TIMEOUTS, firstTokenMs: 200 } } })
  const offers = [
    ...['one', 'every', 'unused', 'shared', 'mixed', 'rejected', 'busy', 'searched'].map(modelId => offer(modelId)),
    offer('refused', 'http://127.0.0.1:9'),
    { ...offer('spared', 'http://127.0.0.1:9'), price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n } },
    offer('spared', upstream.baseUrl, 'spare'),
  ]
  const yaml = 'demo: { enabled: false }\ndetect: { enabled: false }\nstatus: { public: true, server_names: true }'
  const start = () =>
    startTestApp({ database, masterKey, clock, yaml, offers, timeouts: { serverReportIntervalMs: 20 } })
  apps = [await start(), await start(), await start()]
  app = apps[0]!
  operators = []
  for (const each of apps) operators.push((await signedInOperator(each)).browser)
})
afterAll(async () => {
  for (const each of apps) await each.close()
})
beforeEach(async () => {
  upstream.always(answer())
  customer = await app.customer()
})

async function ask(model: string, { times = 1, by = customer, at = app, stream = false } = {}): Promise<number[]> {
  const body = {
    model,
    stream,
    max_tokens: 5,
    tier: 'cheapest',
    messages: [{ role: 'user', content: 'My secret prompt' }],
  }
  const statuses: number[] = []
  for (let n = 0; n < times; n++) {
    const response = await at.chat(by, body)
    await response.text()
    statuses.push(response.status)
  }
  return statuses
}

async function shown(model: string, node = 0): Promise<ShownServer> {
  const response = await operators[node]!.get('operator/overview')
  const { servers } = (await response.json()) as Overview
  return servers.find(each => each.model === model && each.endpoint_id !== 'spare')!
}

/** Waits until the nodes have reported this. */
function untilShown(model: string, expected: Partial<ShownServer>, node = 0): Promise<ShownServer> {
  return vi.waitFor(async () => {
    const server = await shown(model, node)
    expect(server).toMatchObject(expected)
    return server
  }, WAIT_OPTIONS)
}

/** The status page is as old as ten seconds. */
async function statusOf(model: string): Promise<StatusReport['models'][number]> {
  offsetMs += 11_000
  const report = (await (await fetch(`${app.url}/status.json`)).json()) as StatusReport
  return report.models.find(({ id }) => id === model)!
}

/** The state of the offer that routing sees for a customer. */
async function routed(model: string, by: TestCustomer): Promise<string> {
  const quote = await app.chat(by, { model, dry_run: true, messages: [{ role: 'user', content: 'Hello' }] })
  return ((await quote.json()) as { candidates: { state: string }[] }).candidates[0]!.state
}

test('a server that fails 34 of 34 requests of one customer is failing, while it is open for others', async () => {
  upstream.always(status(500, { error: { message: 'CUDA out of memory at 10.0.0.7:9000', type: 'server_error' } }))
  expect(new Set(await ask('one', { times: 34 }))).toEqual(new Set([500]))
  const server = await untilShown('one', { attempts_today: 34 })
  expect(server).toMatchObject({
    state: 'failing',
    answered_today: 0,
    failed_today: 34,
    ok_share: 0,
    recent_failed: 34,
    customers_kept_away: 1,
  })
  const error = server.last_error!
  expect(error).toMatchObject({ outcome: 'server_error', status: 500, customer_id: customer.customerId })
  expect(error.text).toMatch(/^500 server_error: CUDA out of memory at \[address\]$/)
  const rows = await app.usage(customer)
  expect(rows.map(row => row.request_id)).toContain(error.request_id)
  expect(await routed('one', await app.customer())).toBe('open')
  expect(await statusOf('one')).toMatchObject({ state: 'down', healthy: 0, uptime: 0, days_used: 1 })
  const { alarms } = (await (await operators[0]!.get('operator/overview')).json()) as Overview
  const message = 'server-one fails for one: 34 of the last 34 attempts failed.'
  expect(alarms).toContainEqual(expect.objectContaining({ kind: 'server_failing', message }))

  // It is an outage, once, and ends with the recovery.
  await noteFailingServers(database.pool, clock.epochMs())
  await noteFailingServers(database.pool, clock.epochMs())
  expect(await statusOf('one')).toMatchObject({ outages: 1 })

  upstream.always(answer())
  const other = await app.customer()
  await ask('one', { times: 2, by: other })
  await untilShown('one', { state: 'failing', attempts_today: 36 })
  await ask('one', { by: other })
  await untilShown('one', { state: 'degraded', answered_today: 3 })
  await noteFailingServers(database.pool, clock.epochMs())
  const report = (await (await fetch(`${app.url}/status.json`)).json()) as StatusReport
  expect(report.incidents.filter(({ models }) => models.includes('one'))).toHaveLength(1)
  offsetMs += 11 * MINUTE_MS
  await ask('one', { times: 3 })
  await untilShown('one', { state: 'working', recent_attempts: 3, ok_share: 6 / 40 })
  expect(await statusOf('one')).toMatchObject({ state: 'ok', outages: 1 })
})

test('a server that fails for everybody is kept away', async () => {
  upstream.always(hangUp())
  const other = await app.customer()
  for (let n = 0; n < 5; n++) for (const by of [customer, other]) await ask('every', { by })
  await untilShown('every', { state: 'ejected', attempts_today: 10, failed_today: 10 })
  expect(await statusOf('every')).toMatchObject({ state: 'down' })
})

test('a server that nobody has used is unknown, and no model is called up for it', async () => {
  expect(await shown('unused')).toMatchObject({
    state: 'unknown',
    ok_share: null,
    last_error: null,
    attempted_at: null,
  })
  expect(await statusOf('unused')).toMatchObject({ state: 'unknown', uptime: null, days_used: 0 })
})

test('every way to fail is a failed attempt', async () => {
  upstream.respondWith(
    status(503),
    html200(),
    hangUp('reset'),
    closeAfter(400),
    stall(),
    stall({ pieces: ['Hel', 'lo'] }),
    answer(),
  )
  // The first three fail before the answer. A stream that breaks has begun with 200.
  await ask('mixed', { times: 3 })
  await ask('mixed', { times: 2, stream: true })
  const gone = new AbortController()
  const body = { model: 'mixed', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
  const leaving = await app.chat(customer, body, { signal: gone.signal })
  await leaving.body!.getReader().read()
  gone.abort()
  await ask('mixed')
  // The client that left after the first content got an answer.
  await untilShown('mixed', { attempts_today: 7, failed_today: 5, answered_today: 2 })
})

test('a failover counts at both servers', async () => {
  expect(await ask('spared', { times: 3 })).toEqual([200, 200, 200])
  await untilShown('spared', { state: 'ejected', attempts_today: 3, failed_today: 3, answered_today: 0 })
  // Each node reports both servers, but not at the same time as the others.
  await vi.waitFor(async () => {
    const { servers } = (await (await operators[0]!.get('operator/overview')).json()) as Overview
    expect(servers.find(each => each.endpoint_id === 'spare')).toMatchObject({ attempts_today: 3, ok_share: 1 })
    expect(await statusOf('spared')).toMatchObject({ state: 'degraded', servers: 2, healthy: 1, uptime: 0.5 })
  }, WAIT_OPTIONS)
})

test('a request that is wrong counts for nobody', async () => {
  await ask('rejected')
  upstream.always(status(400, { error: { message: 'bad value', type: 'invalid_request_error' } }))
  expect(new Set(await ask('rejected', { times: 20 }))).toEqual(new Set([400]))
  upstream.always(answer())
  await ask('rejected')
  await untilShown('rejected', { state: 'working', attempts_today: 2, failed_today: 0, ok_share: 1, last_error: null })
})

test('a busy server is degraded, not failing', async () => {
  upstream.always(status(429, { error: { message: 'slow down' } }))
  await ask('busy', { times: 3 })
  offsetMs += 6 * MINUTE_MS
  await untilShown('busy', { attempts_today: 3, busy_today: 3, failed_today: 0, ok_share: 0 })
  await vi.waitFor(async () => expect((await shown('busy')).state).toBe('degraded'), WAIT_OPTIONS)
})

test('three nodes agree, and know it after a restart', async () => {
  upstream.always(status(500))
  for (const at of apps) await ask('shared', { times: 2, at })
  const views = await Promise.all(apps.map((_, node) => untilShown('shared', { attempts_today: 6 }, node)))
  for (const view of views) {
    expect(view).toMatchObject({ state: 'failing', recent_failed: 6, customers_kept_away: 0 })
    expect(view).toEqual({ ...views[0], in_flight: view.in_flight })
  }
  await database.pool.query('DELETE FROM node_report')
  await untilShown('shared', { state: 'failing', attempts_today: 6 })
})

test('requests are found by what a server said when it failed', async () => {
  const found = async (query: string) => {
    const response = await operators[0]!.get(`operator/requests?${query}`)
    expect(response.status).toBe(200)
    return (await response.json()) as RequestLog
  }
  for (const [node, text] of ['NVLink of card 3 is down', 'disk full, 100% used'].entries()) {
    upstream.always(status(500, { error: { message: text } }))
    await ask('searched', { at: apps[node]! })
  }
  await expect.poll(async () => (await found('error=full,+100%25+used')).data.length, WAIT_OPTIONS).toBe(1)
  await expect.poll(async () => (await found('error=OF+card+3')).data.length, WAIT_OPTIONS).toBe(1)
  const { data, looked_back_to: oldest } = await found('error=of+card+3&model=searched')
  expect(data).toMatchObject([{ model: 'searched', error: expect.stringContaining('NVLink of card 3 is down') }])
  expect(Date.parse(oldest!)).toBeLessThanOrEqual(Date.parse(data[0]!.started_at) + MINUTE_MS)
  for (const query of ['error=my+secret+prompt', 'error=of+card+3&model=one', 'error=%25%25'])
    expect((await found(query)).data, query).toEqual([])
})
