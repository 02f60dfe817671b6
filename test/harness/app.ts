import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { vi } from 'vitest'
import { parseDocument } from 'yaml'
import { isDatabaseAway } from '../../src/base/db/database-fault.ts'
import { transaction } from '../../src/base/db/pool.ts'
import type { AccountLimits } from '../../src/base/domain/caller.ts'
import { standardQuirks } from '../../src/base/domain/endpoint-defaults.ts'
import type { Offer, ProviderKind } from '../../src/base/domain/offer.ts'
import { readAttempts, type StoredAttempts } from '../../src/base/domain/stored-attempts.ts'
import { createLog } from '../../src/base/runtime/create-log.ts'
import type { Clock } from '../../src/base/runtime/scheduler.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { issueKey, type NewKey } from '../../src/identity/auth/keys.ts'
import { activateHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { addHoster } from '../../src/market/supply/hosters/add-hoster.ts'
import type { HostedModel } from '../../src/market/supply/hosters/hosted-model.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { type App, compose } from '../../src/start/compose/compose.ts'
import type { NodeTimeouts } from '../../src/start/compose/compose-context.ts'
import { type Config, loadConfig } from '../../src/start/config/config.ts'
import { configuredOffers } from '../../src/start/config/configured-offers.ts'
import { createConfigReload } from '../../src/start/reload-config.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { startFaultProxy } from './fault-proxy.ts'
import { GENEROUS_TIMEOUTS, WAIT_OPTIONS } from './timeouts.ts'

export interface TestAppOptions {
  /** The text of switchyard.yaml. Endpoints are usually given as `offers`. */
  readonly yaml?: string
  readonly offers?: readonly Offer[]
  readonly clock?: Clock
  /** Random numbers in [0, 1). Default: always 0.5, so that routing is the same in every run. */
  readonly random?: () => number
  readonly timeouts?: Partial<NodeTimeouts>
  /** Default: a random key. Several gateways on one database need the same key. */
  readonly masterKey?: Buffer
  /** In the place of `masterKey`: a ring that the test changes. */
  readonly masterKeys?: MasterKeys
  /** A database that the caller drops. Default: a new one, dropped with the gateway. */
  readonly database?: TestDatabase
  /** Receives each log line. Default: the gateway does not log. */
  readonly onLog?: (line: string) => void
  /** Lets `cutOff` work: the gateway, but not the test, connects to PostgreSQL through a proxy. */
  readonly mayBeCutOff?: boolean
}

export interface TestHoster {
  readonly baseUrl: string
  /** Default: 0.9. */
  readonly trustScore?: number
  /** In basis points. Default: 8,000. */
  readonly shareBps?: number
  /** Default: `test-model` at the price of `testOffer`. */
  readonly models?: readonly Partial<HostedModel>[]
}

type KeyOptions = Partial<Omit<NewKey, 'customerId'>>

export interface TestCustomer {
  readonly customerId: string
  readonly key: string
}

export interface TestApp {
  readonly app: App
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly database: TestDatabase
  /**
   * Creates a customer with credit (default 5 USD) and one key. `limits` override those of the account tier. The rate limit
   * windows of such a customer start in the next minute and day of PostgreSQL, so they do not end during a test.
   */
  customer(options?: {
    creditNanos?: bigint
    tier?: string
    limits?: Partial<AccountLimits>
    key?: KeyOptions
  }): Promise<TestCustomer>
  /** Creates another key of the customer. */
  anotherKey(customer: TestCustomer, options?: KeyOptions): Promise<TestCustomer>
  /** Adds an active hoster whose offers are live when this resolves, and returns its id. Needs `hosters.allow_private_urls`. */
  hoster(hoster: TestHoster): Promise<string>
  chat(customer: TestCustomer, body: object, init?: RequestInit): Promise<Response>
  get(customer: TestCustomer, path: string): Promise<Response>
  /** The text that GET /metrics would return. */
  metrics(): Promise<string>
  balanceNanos(customer: TestCustomer): Promise<bigint>
  usage(customer: TestCustomer): Promise<UsageRow[]>
  /** Waits until this many requests of the customer are settled. A client that disconnects gets no sign of it. */
  settled(customer: TestCustomer, count: number): Promise<UsageRow[]>
  /**
   * Cuts the gateway off PostgreSQL until the returned function is called. Resets all connections; with `silently` they stay
   * open and carry nothing. Needs `mayBeCutOff`.
   */
  cutOff(how?: { silently: boolean }): () => void
  /** Replaces the text of switchyard.yaml, for the next reload. */
  writeConfig(yaml: string): void
  /** Stops the gateway like SIGTERM. The database stays readable until `close`. */
  stop(options?: { drainMs?: number }): Promise<void>
  close(): Promise<void>
}

export interface UsageRow {
  readonly request_id: string
  readonly model_id: string
  readonly provider: ProviderKind | 'none'
  readonly endpoint_id: string | null
  readonly hoster_id: string | null
  readonly input_tokens: number
  readonly output_tokens: number
  readonly usage_source: string
  readonly hold_nanos: bigint
  readonly cost_nanos: bigint
  readonly hoster_share_nanos: bigint
  readonly fee_nanos: bigint
  readonly writeoff_nanos: bigint
  readonly success: boolean
  readonly outcome: string
  readonly finish_reason: string | null
  readonly attempts: readonly { outcome: string }[]
}

/**
 * By default an answer ends after its commit, so that a test can read the usage rows at once, and no audits arrive at the hosters of
 * a test.
 */
function withDefaults(yaml: string): string {
  const settled = /^settlement:/m.test(yaml) ? yaml : `settlement: commit\n${yaml}`
  return /^trust:/m.test(settled) ? settled : `trust: { audits: false }\n${settled}`
}

/** Starts the whole gateway with its own database on a free port. `close` audits the ledger and throws if it finds a violation. */
export async function startTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const database = options.database ?? (await createTestDatabase())
  const masterKeys = options.masterKeys ?? new MasterKeys([options.masterKey ?? randomBytes(32)])
  // Holds the configuration and the journal.
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  writeConfig(directory, options.yaml ?? '')
  const config = readConfig(directory)
  const offersOf = (read: Config) => [...configuredOffers(read), ...(options.offers ?? [])]
  const silent = pino({ level: 'silent' })
  const proxy = options.mayBeCutOff ? await startFaultProxy(database.gatewayConnection) : undefined
  const app = await compose({
    config,
    reloadConfig: createConfigReload({
      config,
      readAgain: () => readConfig(directory),
      async use(changed) {
        app.setOffers(offersOf(changed))
        app.setFile(changed)
      },
      log: silent,
    }),
    connection: proxy?.connection ?? database.gatewayConnection,
    desk: proxy ? { ...database.deskConnection, ...proxy.address } : database.deskConnection,
    masterKeys,
    offers: offersOf(config),
    log: options.onLog ? createLog(config.log, isDatabaseAway, { write: options.onLog }) : silent,
    version: 'test',
    isOnlyNode: false,
    random: options.random ?? (() => 0.5),
    ...(options.clock && { clock: options.clock }),
    // The wait after a drain protects requests of proxies, and tests use none. Prompts are measured however busy the
    // machine is.
    timeouts: { closingGraceMs: 0, measureTextMs: 60_000, ...options.timeouts },
  })
  await app.server.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.server.address() as AddressInfo).port}`
  const headers = ({ key }: TestCustomer) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })
  let namesUsed = 0
  let stopped: Promise<void> | undefined
  const testApp: TestApp = {
    app,
    url,
    database,
    async customer({ creditNanos = 5_000_000_000n, tier = 'standard', limits, key } = {}) {
      const email = `customer-${++namesUsed}-${randomBytes(4).toString('hex')}@example.com`
      return await transaction(database.pool, async sql => {
        const { customerId } = (await addCustomer(sql, { email, accountTier: tier }))!
        await openAccount(sql, customerId, creditNanos)
        if (limits !== undefined) {
          await sql.query(
            'UPDATE customer SET requests_per_minute = $2, requests_per_day = $3, daily_spend_cap_nanos = $4 WHERE customer_id = $1',
            [customerId, limits.requestsPerMinute, limits.requestsPerDay, limits.dailySpendCapNanos],
          )
          await sql.query(
            `UPDATE balance SET minute = date_trunc('minute', now(), 'UTC') + interval '1 minute', day = (now() AT TIME ZONE 'UTC')::date + 1
             WHERE customer_id = $1`,
            [customerId],
          )
        }
        return { customerId, key: (await issueKey(sql, { name: 'test', ...key, customerId })).key }
      })
    },
    anotherKey: ({ customerId }, options) =>
      transaction(database.pool, async sql => ({
        customerId,
        key: (await issueKey(sql, { name: 'test', ...options, customerId })).key,
      })),
    async hoster({ baseUrl, trustScore = 0.9, shareBps = 8_000, models = [{}] }) {
      const standard = {
        modelId: 'test-model',
        price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
        contextTokens: 32_768,
        maxOutputTokens: 8_192,
        features: ['tools', 'images', 'json_schema'],
      } as const
      const name = `hoster-${++namesUsed}`
      const added = { name, baseUrl, trustScore, shareBps, models: models.map(model => ({ ...standard, ...model })) }
      const { hosterId } = await addHoster(database.pool, added, { masterKeys, allowPrivateUrls: true })
      await activateHoster(database.pool, name)
      await app.noticeChanges()
      return hosterId
    },
    chat: (customer, body, init = {}) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify(body),
        ...init,
        headers: { ...headers(customer), ...(init.headers as Record<string, string> | undefined) },
      }),
    get: (customer, path) => fetch(`${url}${path}`, { headers: headers(customer) }),
    metrics: () => app.metrics.metrics(),
    balanceNanos: async customer => (await readBalance(database.pool, customer.customerId))!.postedNanos,
    async usage({ customerId }) {
      const { rows } = await database.pool.query<Omit<UsageRow, 'attempts'> & { attempts: StoredAttempts }>(
        'SELECT * FROM usage_event WHERE customer_id = $1 ORDER BY request_id',
        [customerId],
      )
      return rows.map(({ attempts, ...row }) => ({
        ...row,
        attempts: readAttempts(attempts, {
          endpointId: row.endpoint_id,
          provider: row.provider,
          modelId: row.model_id,
        }),
      }))
    },
    async settled(customer, count) {
      return await vi.waitFor(async () => {
        const rows = await testApp.usage(customer)
        if (rows.length < count) throw new Error(`${rows.length} of ${count} requests are settled`)
        return rows
      }, WAIT_OPTIONS)
    },
    cutOff({ silently } = { silently: false }) {
      if (silently) proxy!.stall()
      else proxy!.cut()
      return () => proxy!.pass()
    },
    writeConfig: yaml => writeConfig(directory, yaml),
    stop({ drainMs = 1_000 } = {}) {
      stopped ??= app.close({ drainMs })
      return stopped
    },
    async close() {
      try {
        await testApp.stop()
        const violated = (await audit(database.pool)).filter(check => check.violations > 0)
        if (violated.length > 0) throw new Error(`The audit found violations: ${JSON.stringify(violated)}`)
      } finally {
        await proxy?.close()
        rmSync(directory, { recursive: true, force: true })
        if (database !== options.database) await database.drop()
      }
    },
  }
  return testApp
}

/** Hosters of a test are no newcomers, unless the configuration mentions them: newcomers get one request in a hundred. */
function withProvedHosters(yaml: string): string {
  if (yaml.includes('newcomers')) return yaml
  const document = parseDocument(yaml === '' ? '{}' : yaml)
  if (document.errors.length > 0) return yaml
  document.setIn(['routing', 'newcomers', 'successes'], 0)
  return String(document)
}

const fileIn = (directory: string) => join(directory, 'switchyard.yaml')
const writeConfig = (directory: string, yaml: string) =>
  writeFileSync(fileIn(directory), withProvedHosters(withDefaults(yaml)))
const readConfig = (directory: string) => loadConfig({ env: {}, cwd: directory, file: fileIn(directory) })

/** Returns a local offer at 1 USD per million input tokens and 2 USD per million output tokens. */
export function testOffer(
  baseUrl: string,
  overrides: { modelId?: string; endpoint?: Partial<Offer['endpoint']> } & Partial<Omit<Offer, 'endpoint'>> = {},
): Offer {
  const { modelId = 'test-model', endpoint, ...rest } = overrides
  const endpointId = endpoint?.endpointId ?? `endpoint-${new URL(baseUrl).port}`
  return {
    offerId: `${endpointId}/${modelId}`,
    modelId,
    upstreamModel: `upstream-${modelId}`,
    price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
    contextTokens: 32_768,
    maxOutputTokens: 8_192,
    features: new Set(['tools', 'images', 'json_schema']),
    ...rest,
    endpoint: {
      endpointId,
      kind: 'local',
      hosterId: null,
      name: endpointId,
      baseUrl,
      apiKey: null,
      dialect: { ...standardQuirks, developerToSystem: false },
      timeouts: GENEROUS_TIMEOUTS,
      trustScore: null,
      hosterShareBps: 0,
      demo: false,
      egress: 'any',
      ...endpoint,
    },
  }
}
