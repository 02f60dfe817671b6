import { randomUUID } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { type BreakerChange, pruneReports, writeReport } from '../../src/market/supply/status/write-report.ts'
import { readStatus } from '../../src/operator/status-report.ts'
import type { StatusReport } from '../../src/wire/api/status.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

const database = useTestDatabase('test')
const upstream = useUpstream('file')
const NOW_MS = Date.UTC(2026, 10, 24, 12)
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const offers = ['http://127.0.0.1:1111', 'http://127.0.0.1:2222'].map(url => testOffer(url))
const [first, second] = offers.map(({ endpoint }) => endpoint.endpointId) as [string, string]

const change = (event: BreakerChange['event'], atMs: number, endpointId = first): BreakerChange => ({
  endpointId,
  modelId: 'test-model',
  event,
  at: new Date(atMs),
})
const report = (
  nodeId: string,
  atMs: number,
  { changes = [], attempts = [], state = 'open' as const }: Partial<Report> = {},
) =>
  transaction(database.pool, sql =>
    writeReport(
      sql,
      {
        nodeId,
        version: 'test',
        servers: [{ endpointId: first, modelId: 'test-model', state, inFlight: 0, recentMs: [], customersKeptAway: 0 }],
        agents: [],
        disks: [],
        masterKeys: [],
        attempts: attempts.map(([answered, failed]) => ({
          endpointId: first,
          modelId: 'test-model',
          answered,
          failed,
          busy: 0,
          answeredInRow: failed > 0 ? 0 : answered,
          failedInRow: failed,
          lastError: null,
          errors: [],
          costNanos: 0n,
          ownCostNanos: 0n,
        })),
        changes,
      },
      new Date(atMs),
    ),
  )
interface Report {
  readonly changes: BreakerChange[]
  readonly attempts: [number, number][]
  readonly state: 'open' | 'ejected'
}
const status = (nowMs = NOW_MS) => readStatus(database.pool, offers, { showsNames: false, nowMs })

test('half of a character in the error text of a server does not lose the report', async () => {
  const node = randomUUID()
  await transaction(database.pool, sql =>
    writeReport(
      sql,
      {
        ...{ nodeId: node, version: 'test', servers: [], agents: [], disks: [], masterKeys: [], changes: [] },
        attempts: [
          {
            ...{ endpointId: first, modelId: 'half-model', answered: 0, failed: 1, busy: 0, answeredInRow: 0 },
            ...{ failedInRow: 1, errors: [], costNanos: 0n, ownCostNanos: 7n },
            lastError: {
              ...{ atMs: NOW_MS, outcome: 'server_error', status: 500, requestId: null, customerId: null },
              text: 'broken \ud83d',
            },
          },
        ],
      },
      new Date(NOW_MS),
    ),
  )
  const { rows } = await database.pool.query(
    "SELECT own_cost_nanos::int AS cost, last_error->>'text' AS text FROM server_day JOIN server_health USING (endpoint_id, model_id) WHERE model_id = 'half-model'",
  )
  expect(rows).toEqual([{ cost: 7, text: 'broken \ufffd' }])
})

test('attempts of all nodes add up to the uptime of a day', async () => {
  const [a, b] = [randomUUID(), randomUUID()]
  await report(a, NOW_MS - DAY_MS, { attempts: [[99, 1]] })
  await Promise.all([report(a, NOW_MS, { attempts: [[9_000, 0]] }), report(b, NOW_MS, { attempts: [[999, 1]] })])
  const { servers } = await status()
  expect(servers[0]!.days).toHaveLength(90)
  expect(servers[0]!.days.slice(-3)).toEqual([
    { day: '2026-11-22', uptime: null, outages: 0 },
    { day: '2026-11-23', uptime: 0.99, outages: 0 },
    { day: '2026-11-24', uptime: 0.9999, outages: 0 },
  ])
  expect(servers[0]!.uptime).toBe(0.9998)
  expect(servers[1]).toMatchObject({ name: 'Server 2', uptime: null })
})

test('a breaker that opens again and again is one incident, on any number of nodes', async () => {
  const [a, b] = [randomUUID(), randomUUID()]
  const atMs = NOW_MS - 60 * MINUTE_MS
  await report(a, atMs, { changes: [change('ejected', atMs), change('ejected', atMs + MINUTE_MS)] })
  await report(b, atMs, { changes: [change('ejected', atMs + MINUTE_MS), change('restored', atMs + 9 * MINUTE_MS)] })
  await report(a, atMs, {
    changes: [change('restored', atMs + 2 * MINUTE_MS), change('ejected', atMs + 4 * MINUTE_MS)],
  })
  await report(a, NOW_MS, { changes: [change('restored', atMs + 5 * MINUTE_MS)] })
  await report(a, NOW_MS, { changes: [change('credential_rejected', atMs + 20 * MINUTE_MS)] })
  const { rowCount } = await database.pool.query('SELECT FROM server_incident')
  expect(rowCount).toBe(3)
  const iso = (minutes: number) => new Date(atMs + minutes * MINUTE_MS).toISOString()
  expect((await status()).incidents).toEqual([
    { server: 'Server 1', models: ['test-model'], kind: 'credential_rejected', began_at: iso(20), ended_at: null },
    { server: 'Server 1', models: ['test-model'], kind: 'ejected', began_at: iso(0), ended_at: iso(9) },
  ])
})

test('the incident of a node that stopped ends with its last report, and old rows are deleted', async () => {
  const node = randomUUID()
  await report(node, NOW_MS - 100 * DAY_MS, { attempts: [[1, 1]], changes: [change('ejected', NOW_MS - 100 * DAY_MS)] })
  await report(randomUUID(), NOW_MS - 90_000, {
    attempts: [[1, 0]],
    changes: [change('ejected', NOW_MS - 95_000, second)],
  })
  await pruneReports(database.pool, NOW_MS)
  await pruneReports(database.pool, NOW_MS)
  expect((await status()).incidents).toMatchObject([
    { server: 'Server 2', ended_at: new Date(NOW_MS - 90_000).toISOString() },
  ])
  for (const [table, left] of [
    ['server_incident', 1],
    ['server_day', 1],
    ['node_report', 0],
  ] as const) {
    expect({ table, rows: (await database.pool.query(`SELECT FROM ${table}`)).rowCount }).toEqual({ table, rows: left })
  }
})

test('a model with one ejected server of two is degraded, and down with both', async () => {
  const unused = { state: 'unknown', servers: 2, healthy: 2, uptime: null, days_used: 0 }
  expect(await status()).toMatchObject({ state: 'unknown', models: [unused] })
  await report(randomUUID(), NOW_MS, { attempts: [[1, 0]] })
  expect(await status()).toMatchObject({ state: 'ok', models: [{ state: 'ok', servers: 2, healthy: 2, days_used: 1 }] })
  await report(randomUUID(), NOW_MS, { state: 'ejected' })
  const degraded = await status()
  expect(degraded).toMatchObject({ state: 'degraded', models: [{ state: 'degraded', healthy: 1 }] })
  expect(degraded.servers.map(({ state }) => state)).toEqual(['down', 'unknown'])
  const [only] = offers
  const down = await readStatus(database.pool, [only!], { showsNames: true, nowMs: NOW_MS })
  expect(down).toMatchObject({ state: 'down', servers: [{ name: only!.endpoint.name }] })
  // An old report says nothing about now.
  expect(await status(NOW_MS + 2 * MINUTE_MS)).toMatchObject({ state: 'ok' })
})

describe('over HTTP', () => {
  const app = useTestApp(() => ({
    offers: [testOffer(upstream.baseUrl, { endpoint: { name: 'secret-name' } })],
    timeouts: { serverReportIntervalMs: 20 },
  }))

  test('only signed-in people see it, without addresses and names', async () => {
    const refused = await fetch(`${app.url}/status.json`)
    expect(await readError(refused)).toMatchObject({ status: 401, code: 'not_signed_in' })
    const customer = await app.customer()
    const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5 }
    await (await app.chat(customer, chat)).arrayBuffer()
    const { browser } = await signedInMember(app, customer.customerId)
    await vi.waitFor(async () => {
      const { rowCount } = await app.database.pool.query('SELECT FROM server_day WHERE answered = 1')
      expect(rowCount).toBe(1)
    }, WAIT_OPTIONS)
    const response = await fetch(`${app.url}/status.json`, { headers: { cookie: browser.cookie! } })
    expect(response.headers.get('cache-control')).toBe('no-store')
    const text = await response.text()
    expect(JSON.parse(text)).toMatchObject({ state: 'ok', servers: [{ name: 'Server 1', uptime: 1 }], incidents: [] })
    expect(text).not.toContain('secret-name')
    expect(text).not.toContain(new URL(upstream.baseUrl).port)
  })

  test('everybody sees it if the operator wants, and a failing server becomes an incident', async () => {
    await using failing = await startTestAppFor('http://127.0.0.1:9')
    const customer = await failing.customer()
    const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5 }
    for (let n = 0; n < 6; n++) await (await failing.chat(customer, chat)).arrayBuffer()
    await vi.waitFor(async () => {
      const { rowCount } = await failing.database.pool.query('SELECT FROM server_incident')
      expect(rowCount).toBe(1)
    }, WAIT_OPTIONS)
    const response = await fetch(`${failing.url}/status.json`)
    expect(response.headers.get('cache-control')).toBe('public, max-age=10')
    expect((await response.json()) as StatusReport).toMatchObject({
      state: 'down',
      servers: [{ name: 'endpoint-9', uptime: 0 }],
      incidents: [{ kind: 'ejected', ended_at: null }],
    })
  })
})

async function startTestAppFor(baseUrl: string) {
  const app = await startTestApp({
    yaml: 'status:\n  public: true\n  server_names: true\n',
    offers: [testOffer(baseUrl)],
    timeouts: { serverReportIntervalMs: 20 },
  })
  return { ...app, [Symbol.asyncDispose]: () => app.close() }
}

test('a server that fails all the time does not push out the errors of others', async () => {
  await database.pool.query(
    `INSERT INTO server_error (at, endpoint_id, model_id, outcome, text)
     SELECT $1, CASE i WHEN 1 THEN 'quiet' ELSE 'noisy' END, 'm', 'server_error', 'broken' FROM generate_series(1, 10101) AS i`,
    [new Date(NOW_MS)],
  )
  // What was deleted before counts for nothing.
  await database.pool.query("SELECT setval(pg_get_serial_sequence('server_error', 'error_id'), 1000000)")
  await database.pool.query(
    "INSERT INTO server_error (at, endpoint_id, model_id, outcome, text) VALUES ($1, 'noisy', 'm', 'server_error', 'broken')",
    [new Date(NOW_MS)],
  )
  await pruneReports(database.pool, NOW_MS)
  const { rows } = await database.pool.query(
    "SELECT endpoint_id AS id, count(*)::int AS rows FROM server_error WHERE model_id = 'm' GROUP BY 1 ORDER BY 1",
  )
  expect(rows).toEqual([
    { id: 'noisy', rows: 10_000 },
    { id: 'quiet', rows: 1 },
  ])
})
