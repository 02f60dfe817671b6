import { accessSync, constants, existsSync } from 'node:fs'
import { createServer, type LookupFunction } from 'node:net'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { localUrlOf } from '../config/base-url.ts'
import { type Config, ConfigError } from '../config/config.ts'
import { configuredOffers } from '../config/configured-offers.ts'
import { listenErrorMessage } from '../config/listen-error-message.ts'
import { openDatabase } from '../db/embedded.ts'
import { pendingMigrations } from '../db/migrate.ts'
import { createPool, type Pool } from '../db/pool.ts'
import { credentialHeader } from '../domain/credential-header.ts'
import type { Endpoint, Offer } from '../domain/offer.ts'
import { getJson } from '../egress/get-json.ts'
import { createPinnedLookup } from '../egress/pinned-lookup.ts'
import { quoteForShell } from '../runtime/quote-for-shell.ts'
import { findMasterKey } from '../secrets/master-key.ts'
import { markOf, readMark } from '../secrets/master-key-mark.ts'
import { isSwitchyardAt } from '../supply/detection/is-switchyard-at.ts'
import { readHosterOffers } from '../supply/hosters/hoster-offers.ts'
import { Failure } from './failure.ts'
import { hasDatabase } from './has-database.ts'
import { whyNotThatOfServers } from './master-key-of.ts'
import { table } from './output.ts'
import { outputOf, type Session, sessionOf, verb } from './verb.ts'

/** How long a server may take to answer. */
const ASK_TIMEOUT_MS = 5_000

/** One thing that was looked at. `detail` says what was found and, when it is not well, what to do. */
interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly detail: string
}

export function doctorCommand(): Command {
  return verb('doctor', 'Look at everything a start needs; fails if something is wrong. Changes nothing', [
    'doctor',
    'doctor --json --config production.yaml',
  ]).action(async options => {
    const output = outputOf(options)
    const findings = await examine(options)
    const wrong = findings.filter(({ ok }) => !ok)
    output.result(
      { ok: wrong.length === 0, checks: findings.map(finding => ({ ...finding })) },
      table(
        ['state', 'check', 'finding'],
        findings.map(({ check, ok, detail }) => [ok ? 'ok' : 'WRONG', check, detail]),
        '',
      ),
    )
    if (wrong.length > 0) throw new Failure(`${wrong.length} of ${findings.length} checks found something wrong.`)
  })
}

async function examine(options: { json?: true; config?: string }): Promise<Finding[]> {
  let session: Session
  try {
    session = sessionOf(options)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.message.split('\n').map(detail => ({ check: 'configuration', ok: false, detail }))
  }
  const { config } = session
  const findings: Finding[] = [
    { check: 'configuration', ok: true, detail: config.configFile ?? 'no switchyard.yaml: the defaults hold' },
    await look('data directory', async () => dataDirectory(config)),
  ]
  const [port, database, endpoints] = await Promise.all([
    look('port', () => portState(config)),
    examineDatabase(session),
    examineEndpoints(configuredOffers(config)),
  ])
  return [...findings, port, ...database, ...endpoints]
}

/** Runs one check: what it returns is well, what it throws is wrong. */
async function look(check: string, examine: () => Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await examine() }
  } catch (error) {
    return { check, ok: false, detail: (error as Error).message }
  }
}

function dataDirectory({ dataDir }: Config): string {
  let nearest = dataDir
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest)
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK)
  } catch {
    throw new Error(`${nearest} cannot be written by this user. Set SWITCHYARD_DATA to another directory.`)
  }
  return nearest === dataDir ? dataDir : `${dataDir} does not exist yet; the first start creates it`
}

async function portState(config: Config): Promise<string> {
  const { host, port } = config.server
  const taken = await new Promise<NodeJS.ErrnoException | undefined>(resolve => {
    const probe = createServer()
      .once('error', resolve)
      .listen({ host, port }, () => probe.close(() => resolve(undefined)))
  })
  if (!taken) return port === 0 ? 'the system chooses one at the start' : `${port} on ${host} is free`
  if (taken.code !== 'EADDRINUSE') throw new Error(listenErrorMessage(taken, config.server))
  const here = localUrlOf(config.server)
  if (await isSwitchyardAt(here, ASK_TIMEOUT_MS)) return `a Switchyard server runs at ${here}`
  throw new Error(`${port} on ${host} is taken by another program. Set PORT to another one.`)
}

async function examineDatabase(session: Session): Promise<Finding[]> {
  const { config, output } = session
  if (!hasDatabase(config)) {
    return [
      { check: 'database', ok: true, detail: 'none yet; the first start creates it in the data directory' },
      await look('master key', async () => masterKeyState(config, undefined)),
    ]
  }
  try {
    const database = await openDatabase({
      databaseUrl: config.databaseUrl ?? undefined,
      dataDir: config.dataDir,
      log: { info: output.note, warn: output.note },
    })
    const pool = createPool(database.connection, { max: 2, applicationName: 'switchyard doctor' })
    try {
      const migrations = await look('migrations', () => migrationState(pool))
      const findings = [
        await look('database', () => databaseState(pool)),
        migrations,
        await look('clock', () => clockSkew(pool)),
      ]
      if (!migrations.ok || (await pendingMigrations(pool)).length > 0) {
        return [...findings, await look('master key', async () => masterKeyState(config, undefined))]
      }
      const masterKey = await look('master key', async () => masterKeyState(config, await readMark(pool)))
      return [
        ...findings,
        await look('account tiers', () => tiersInUse(pool, config)),
        masterKey,
        ...(masterKey.ok ? await examineHosters(config, pool) : []),
      ]
    } finally {
      await pool.end()
      await database.close()
    }
  } catch (error) {
    return [{ check: 'database', ok: false, detail: (error as Error).message }]
  }
}

async function databaseState(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ version: string; size: string }>(
    "SELECT current_setting('server_version') AS version, pg_size_pretty(pg_database_size(current_database())) AS size",
  )
  return `PostgreSQL ${rows[0]!.version}, ${rows[0]!.size}`
}

async function migrationState(pool: Pool): Promise<string> {
  const pending = await pendingMigrations(pool)
  return pending.length === 0 ? 'all applied' : `the next start applies ${pending.join(', ')}`
}

/** Days and minutes of limits are the database's; far apart, customers see windows that do not fit the headers. */
const SKEW_MAX_MS = 2_000

async function clockSkew(pool: Pool): Promise<string> {
  const beforeMs = Date.now()
  const { rows } = await pool.query<{ now: Date }>('SELECT clock_timestamp() AS now')
  const skewMs = Math.round(rows[0]!.now.getTime() - (beforeMs + Date.now()) / 2)
  if (Math.abs(skewMs) > SKEW_MAX_MS) {
    throw new Error(`the database's clock is ${skewMs} ms ahead of this machine's. Synchronise both with NTP.`)
  }
  return `within ${Math.abs(skewMs)} ms of the database's`
}

async function tiersInUse(pool: Pool, { accountTiers }: Config): Promise<string> {
  const { rows } = await pool.query<{ tier: string }>('SELECT DISTINCT account_tier AS tier FROM customer ORDER BY 1')
  const missing = rows.map(({ tier }) => tier).filter(tier => !Object.hasOwn(accountTiers, tier))
  if (missing.length === 0) return 'every customer has one that is configured'
  throw new Error(
    `customers have ${missing.join(', ')}, not configured: they get the limits of free. Add it, or: switchyard customer tier`,
  )
}

/** @param mark of the key that the server last started with; undefined when none did */
function masterKeyState(config: Config, mark: string | undefined): string {
  const key = findMasterKey(config)
  if (mark !== undefined && (key === undefined || markOf(key) !== mark)) {
    throw new Error(whyNotThatOfServers(config, key !== undefined))
  }
  if (key === undefined) return 'none yet; the first start makes it in the data directory'
  return config.masterKey === null ? join(config.dataDir, 'master.key') : 'SWITCHYARD_MASTER_KEY'
}

async function examineHosters(config: Config, pool: Pool): Promise<Finding[]> {
  const { allowPrivateUrls } = config.hosters
  const { rows } = await pool.query("SELECT FROM hoster WHERE state = 'active' LIMIT 1")
  if (rows.length === 0) return []
  const masterKey = findMasterKey(config)
  if (masterKey === undefined) return [{ check: 'hoster', ok: false, detail: whyNotThatOfServers(config, false) }]
  const problems: Finding[] = []
  const { offers } = await readHosterOffers(pool, {
    masterKey,
    allowPrivateHosters: allowPrivateUrls,
    onProblem: detail => problems.push({ check: 'hoster', ok: false, detail }),
  })
  return [...problems, ...(await examineEndpoints(offers, allowPrivateUrls ? undefined : createPinnedLookup()))]
}

async function examineEndpoints(offers: readonly Offer[], lookup?: LookupFunction): Promise<Finding[]> {
  const byEndpoint = Map.groupBy(offers, offer => offer.endpoint)
  return Promise.all(
    [...byEndpoint].map(([endpoint, own]) =>
      look(`${endpoint.kind} ${endpoint.name}`, () => endpointState(endpoint, own, lookup)),
    ),
  )
}

async function endpointState(endpoint: Endpoint, offers: readonly Offer[], lookup?: LookupFunction): Promise<string> {
  const url = `${endpoint.baseUrl}/models`
  const credential = credentialHeader(endpoint)
  const headers = credential === null ? {} : Object.fromEntries([credential])
  const answer = await getJson(url, { timeoutMs: ASK_TIMEOUT_MS, headers, lookup }).catch((error: Error) => {
    throw new Error(`${url} does not answer (${error.message}). Is it running, and is base_url right?`)
  })
  if (answer.status === 401 || answer.status === 403) {
    const where =
      endpoint.kind === 'hoster'
        ? `Set a new one: switchyard hoster key ${quoteForShell(endpoint.name)} --key-file <file>`
        : 'Check api_key.'
    throw new Error(`${url} refuses the key (${answer.status}). ${where}`)
  }
  // A server without a list of models can still answer chats.
  if (answer.status === 404 || answer.status === 405) return `${endpoint.baseUrl} answers; it does not list its models`
  const listed = (answer.body as { data?: unknown } | undefined)?.data
  if (answer.status !== 200 || !Array.isArray(listed)) {
    throw new Error(`${url} answers ${answer.status} without a list of models. Does base_url end in /v1?`)
  }
  const known = new Set(listed.map(model => (model as { id?: unknown } | null)?.id))
  const missing = offers.map(({ upstreamModel }) => upstreamModel).filter(model => !known.has(model))
  if (missing.length > 0)
    throw new Error(`${endpoint.baseUrl} does not list ${missing.join(', ')}. Check upstream_model.`)
  return `${endpoint.baseUrl} answers and lists ${offers.length === 1 ? 'its model' : `all ${offers.length} models`}`
}
