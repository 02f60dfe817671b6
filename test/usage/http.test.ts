import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import type { Caller } from '../../src/base/domain/caller.ts'
import { standardPriceLimits } from '../../src/base/domain/price-limits.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { AllowedHosts } from '../../src/http/allowed-hosts.ts'
import { docs } from '../../src/http/endpoints/docs.ts'
import { healthz, readyz } from '../../src/http/endpoints/health.ts'
import { modelShow, modelsList } from '../../src/http/endpoints/models.ts'
import { usageBreakdown, usageExport, usageSummary, usageTokens } from '../../src/http/endpoints/usage.ts'
import { createGuard } from '../../src/http/guard.ts'
import { createMetrics } from '../../src/http/metrics.ts'
import { createServer } from '../../src/http/server.ts'
import { createReports } from '../../src/money/usage/reports.ts'
import { createMinuteLimiter } from '../../src/request/limits/minute-limiter.ts'
import type { ExportQuery } from '../../src/wire/api/activity.ts'
import type { ListedModel } from '../../src/wire/api/models.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { idleGauges } from '../harness/idle-gauges.ts'
import { createRichCustomer } from './customer.ts'
import { createTestGateway, type TestGateway } from './test-gateway.ts'

const models: ListedModel[] = [
  {
    id: 'meta/llama-3 70b',
    contextTokens: 131_072,
    maxOutputTokens: 8_192,
    features: new Set(['tools', 'json_schema']),
    providerKinds: ['cloud', 'hoster'],
    prices: {
      cloud: { lowest: priceOf(590_000n, 790_000n), highest: priceOf(590_000n, 790_000n) },
      hoster: { lowest: priceOf(100_000n, 300_000n), highest: priceOf(200_000n, 300_000n) },
    },
    mostPerToken: priceOf(590_000n, 790_000n),
    created: 1_795_252_195,
    ownedBy: 'switchyard',
    demo: false,
  },
  {
    id: 'demo',
    contextTokens: 8_192,
    maxOutputTokens: 4_096,
    features: new Set(),
    providerKinds: ['local'],
    prices: { local: { lowest: priceOf(10_000n, 20_000n), highest: priceOf(10_000n, 20_000n) } },
    mostPerToken: priceOf(10_000n, 20_000n),
    created: 1_795_252_000,
    ownedBy: 'demo',
    demo: true,
  },
]

const ENDLESS_DAYS = 364
const ended = Promise.withResolvers<void>()
const endlessExport = {
  fileName: 'endless.csv',
  archivedBefore: '2026-01-01T00:00:00.000Z',
  csv: endlessCsv(),
  closed: ended.promise,
}
async function* endlessCsv() {
  try {
    for (;;) yield 'row\r\n'.repeat(1000)
  } finally {
    ended.resolve()
  }
}

let database: TestDatabase
let gateway: TestGateway
let caller: Caller
let server: FastifyInstance
let base: string
let isDraining = false
let isDatabaseUp = true

let metricsText: () => Promise<string>
beforeAll(async () => {
  database = await createTestDatabase()
  gateway = createTestGateway(database)
  gateway.travel('2026-11-21T12:00:00.250Z')
  caller = await createRichCustomer(database.pool)
  const closedPool = createPool(database.connection, { max: 1, applicationName: 'closed' })
  await closedPool.end()
  const withoutDatabase = createReports({
    sql: closedPool,
    clock: systemClock,
    readBalance: async () => 0n,
    readWindows: async () => ({ minuteUsed: 0, dayUsed: 0, minuteEndsAtEpochMs: 0, dayEndsAtEpochMs: 0 }),
  })
  const reports = {
    summary: (caller: Caller) => (isDatabaseUp ? gateway.reports : withoutDatabase).summary(caller),
    tokens: gateway.reports.tokens,
    breakdown: gateway.reports.breakdown,
    key: gateway.reports.key,
    export: async (caller: Caller, query: ExportQuery) =>
      query.days === ENDLESS_DAYS
        ? endlessExport
        : (isDatabaseUp ? gateway.reports : withoutDatabase).export(caller, query),
  }
  const { registry, ...metrics } = createMetrics({
    ...idleGauges,
    inFlight: () => 3,
    settleQueue: () => ({ length: 5, oldestMs: 1_500 }),
  })
  metricsText = () => registry.metrics()
  const failed = {
    offerId: 'broken/m',
    endpointId: 'broken',
    provider: 'hoster',
    outcome: 'connect_failed',
    elapsedMs: 9,
  } as const
  metrics.settled(
    {
      ...{ modelId: 'm', endpointId: 'hoster-1', hosterId: 'hoster-1', provider: 'hoster', outcome: 'served' },
      ...{
        latencyMs: 900,
        firstTokenMs: 250,
        costNanos: 16_951n,
        inputTokens: 31,
        outputTokens: 154,
        attempts: [failed],
      },
    },
    { billedParts: null },
  )
  const offered = () => new Map(models.map(model => [model.id, model]))
  server = createServer({
    endpoints: [
      usageSummary({ reports }),
      usageTokens({ reports }),
      usageBreakdown({ reports }),
      usageExport({ reports }),
      modelsList({ models: offered, priceLimits: standardPriceLimits }),
      modelShow({ models: offered, priceLimits: standardPriceLimits }),
      healthz(),
      readyz({
        isClosing: () => isDraining,
        pingDatabase: () => (isDatabaseUp ? database.pool : closedPool).query('SELECT 1'),
      }),
      ...docs(),
    ],
    guard: createGuard({
      committed: () => undefined,
      authenticator: { authenticate: async () => caller, close() {} },
      operatorKeys: { authenticate: () => Promise.reject(new Error('unused')) },
      hosterAuthenticator: { authenticate: () => Promise.reject(new Error('not used here')), close() {} },
      limiter: createMinuteLimiter({ requestsPerMinute: 10_000, clock: systemClock }),
      consoleGuard: { check: () => Promise.reject(new Error('not used here')) },
    }),
    log: Fastify({ logger: false }).log,
    allowedHosts: new AllowedHosts([]),
    connectionsMax: 100,
    slowReaderMs: 30_000,
    onResponse: metrics.request,
  })
  base = await server.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await server.close()
  await database.drop()
})

function priceOf(inputPicoPerToken: bigint, outputPicoPerToken: bigint) {
  return { inputPicoPerToken, outputPicoPerToken }
}

async function get(path: string, init?: RequestInit) {
  const response = await fetch(`${base}${path}`, init)
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined }
}

describe('reports', () => {
  test.each(['/v1/usage/tokens', '/v1/usage/breakdown', '/v1/usage/export'])(
    '%s refuses bad days by name',
    async path => {
      for (const query of [
        'days=0',
        'days=366',
        'days=-1',
        'days=1e3',
        'days=3.0',
        'days=%205',
        'days=',
        'days=1&days=2',
      ]) {
        const { status, body } = await get(`${path}?${query}`)
        expect({ query, status, body }).toMatchObject({
          status: 400,
          body: { error: { code: 'invalid_value', param: 'days' } },
        })
      }
      expect((await get(`${path}?days=7&since=yesterday`)).status).toBe(200)
    },
  )

  test('tokens refuse an unknown interval and echo a known one', async () => {
    expect((await get('/v1/usage/tokens?interval=year')).body).toMatchObject({ error: { param: 'interval' } })
    const { body } = await get('/v1/usage/tokens?days=2&interval=hour')
    expect(body).toMatchObject({ period_days: 2, interval: 'hour' })
    expect(body.timeseries).toHaveLength(48)
  })

  test('defaults are 30 days by day', async () => {
    expect((await get('/v1/usage/tokens')).body).toMatchObject({ period_days: 30, interval: 'day' })
    expect((await get('/v1/usage/breakdown')).body.daily).toHaveLength(30)
    expect((await get('/v1/usage')).body).toMatchObject({ customer: caller.email, credit_balance_usd: 1_000_000 })
  })

  test('the export is an attachment', async () => {
    const { headers, text } = await get('/v1/usage/export?days=1')
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(headers.get('content-disposition')).toBe('attachment; filename="switchyard-usage-2026-11-21-2026-11-21.csv"')
    expect(text).toMatch(/^timestamp,.*,success,request_id,.*,member\r\n$/)
  })

  test('without a database every report is refused, including the export', async () => {
    isDatabaseUp = false
    for (const path of ['/v1/usage', '/v1/usage/export']) {
      const refused = await get(path)
      expect(refused).toMatchObject({ status: 503, body: { error: { code: 'database_unavailable' } } })
      expect(refused.headers.get('retry-after')).toBe('2')
    }
    isDatabaseUp = true
  })
})

describe('models', () => {
  test('are listed by id, with the lowest and the highest price', async () => {
    const { body } = await get('/v1/models')
    expect(body).toMatchObject({ object: 'list', data: [{ id: 'demo', demo: true }, { id: 'meta/llama-3 70b' }] })
    expect(body.data[1]).toMatchObject({
      id: 'meta/llama-3 70b',
      object: 'model',
      created: 1_795_252_195,
      owned_by: 'switchyard',
      context_length: 131_072,
      max_output_tokens: 8_192,
      pricing: {
        input_usd_per_million: 0.1,
        output_usd_per_million: 0.3,
        cache_read_usd_per_million: 0.1,
        dearest: { input_usd_per_million: 0.59, output_usd_per_million: 0.79, cache_read_usd_per_million: 0.59 },
        at_most: { input_usd_per_million: 0.59, output_usd_per_million: 0.79 },
        first_server_percent: { cheapest: 100, balanced: 150, fastest: 300, local: 100 },
      },
      providers: ['cloud', 'hoster'],
      features: ['json_schema', 'tools'],
      demo: false,
    })
  })

  test.each(['meta/llama-3%2070b', 'meta%2Fllama-3%2070b', 'meta%2fllama-3%2070b'])('exist at %s', async id => {
    expect((await get(`/v1/models/${id}`)).body).toMatchObject({ id: 'meta/llama-3 70b', object: 'model' })
  })

  test.each(['gpt-9', 'meta', 'meta%2F', 'demo/', '__proto__', 'x'.repeat(400)])('do not exist at %s', async id => {
    const { status, body } = await get(`/v1/models/${id}`)
    expect(status).toBe(404)
    expect(body.error).toMatchObject({ code: 'model_not_found', param: 'model', type: 'invalid_request_error' })
  })
})

describe('service', () => {
  test('is always alive, but ready only with a database and while it accepts requests', async () => {
    expect(await get('/readyz')).toMatchObject({ status: 200, body: { status: 'ok' } })
    isDatabaseUp = false
    expect(await get('/readyz')).toMatchObject({ status: 503, body: { error: { code: 'database_unavailable' } } })
    isDatabaseUp = true
    isDraining = true
    expect(await get('/readyz')).toMatchObject({ status: 503, body: { error: { code: 'server_shutdown' } } })
    expect(await get('/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } })
    isDraining = false
  })

  test('metrics count by route and contain no ids of customers', async () => {
    await get('/v1/models/demo')
    const text = await metricsText()
    expect(text).toContain('switchyard_http_requests_total{path="/v1/models/*",status="200"}')
    expect(text).toContain('switchyard_requests_in_flight 3')
    expect(text).toContain('switchyard_settle_queue_length 5')
    expect(text).toContain('switchyard_attempts_total{provider="hoster",outcome="connect_failed",endpoint="broken"} 1')
    expect(text).toContain(
      'switchyard_first_token_seconds_bucket{le="0.4",model="m",endpoint="hoster-1",provider="hoster"} 1',
    )
    expect(text).toContain(
      'switchyard_charged_nano_usd_total{model="m",endpoint="hoster-1",provider="hoster",hoster="hoster-1"} 16951',
    )
    const labels = 'model="m",endpoint="hoster-1",provider="hoster",hoster="hoster-1"'
    expect(text).toContain(`switchyard_billed_tokens_total{${labels},kind="output"} 154`)
    expect(text).toContain(`switchyard_requests_total{${labels},outcome="served"} 1`)
    expect(text).toContain('switchyard_settle_queue_age_seconds 1.5')
    expect(text).not.toContain(caller.customerId)
    expect(text).not.toContain('demo')
  })
})

describe('the API reference', () => {
  test('loads nothing from other sites, and its policy forbids it', async () => {
    const { headers, text } = await get('/docs')
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(text).not.toMatch(/https?:|src="\/\//)
    const policy = Object.fromEntries(
      headers
        .get('content-security-policy')!
        .split('; ')
        .map(rule => [rule.split(' ')[0], rule.split(' ').slice(1)]),
    )
    expect(policy).toMatchObject({ 'default-src': ["'none'"], 'connect-src': ["'self'"], 'font-src': ["'self'"] })
    expect(Object.values(policy).flat().join(' ')).not.toMatch(/\*|https?:|unsafe-eval/)
    expect(policy['script-src']).not.toContain("'unsafe-inline'")
  })

  test('the policy allows the one script in the page', async () => {
    const { headers, text } = await get('/docs')
    const inline = /<script>([\s\S]*?)<\/script>/.exec(text)![1]!
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(inline))
    expect(headers.get('content-security-policy')).toContain(`'sha256-${Buffer.from(digest).toString('base64')}'`)
  })

  test('brings its own script', async () => {
    const { headers, text } = await get('/docs/scalar.js')
    expect(headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(headers.get('content-encoding')).toBe('gzip')
    expect(text).toContain('createApiReference')
  })
})

test('an export names the end of its archived months, and stops when the client leaves', async () => {
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  socket.write(`GET /v1/usage/export?days=${ENDLESS_DAYS} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
  const [head] = await once(socket, 'data')
  expect(String(head)).toContain('\r\nx-switchyard-archived-before: 2026-01-01T00:00:00.000Z\r\n')
  socket.destroy()
  await endlessExport.closed
})
