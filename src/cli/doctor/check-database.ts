import { durabilityWarnings } from '../../base/db/durability.ts'
import { mayActAsDesk, mayReplaceFunctions, mayRewriteLedger } from '../../base/db/gateway-role.ts'
import { pendingMigrations } from '../../base/db/migrate.ts'
import { openDatabase } from '../../base/db/open-database.ts'
import { createPool, type Pool } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { errorMessage } from '../../base/runtime/error-message.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { isResealed, readMark, readRing } from '../../base/secrets/key-ring-state.ts'
import { findMasterKeys, hasKeyFile, masterKeyPath } from '../../base/secrets/master-key.ts'
import { countSealed } from '../../base/secrets/reseal.ts'
import { nameOfPlace } from '../../base/secrets/sealed-places.ts'
import { readHosterOffers } from '../../market/supply/hosters/hoster-offers.ts'
import { listLiveNodes } from '../../money/ledger/leases/list-live-nodes.ts'
import { lateJobWarning, readLateJob } from '../../operator/late-job.ts'
import { readSettingsVersion } from '../../operator/settings-versions.ts'
import type { Config } from '../../start/config/config.ts'
import { withManaged } from '../../start/config/managed-settings.ts'
import { hasDatabase } from '../../start/has-database.ts'
import { createPinnedLookup } from '../../wire/egress/pinned-lookup.ts'
import type { Session } from '../command.ts'
import { counted } from '../counted.ts'
import { masterKeyProblem } from '../require-master-key.ts'
import { checkAudits } from './check-audits.ts'
import { checkEndpoints } from './check-endpoints.ts'
import { type Finding, runCheck } from './finding.ts'

/**
 * Checks the database and everything that depends on its contents: clock, account tiers, master key and active
 * hosters.
 *
 * @param canCreate whether the first start could create a database and a master key in the data directory
 */
export async function checkDatabase({ config, output }: Session, canCreate: boolean): Promise<Finding[]> {
  if (!hasDatabase(config)) {
    if (!canCreate) return [skipped('database'), ...(config.masterKey === null ? [skipped('master key')] : [])]
    return [
      { check: 'database', ok: true, detail: 'none yet; the first start creates it in the data directory' },
      await runCheck('master key', async () => checkMasterKey(config, undefined)),
    ]
  }
  try {
    const database = await openDatabase({
      databaseUrl: config.databaseUrl ?? undefined,
      deskUrl: config.databaseDeskUrl ?? undefined,
      ownerUrl: config.databaseOwnerUrl ?? undefined,
      dataDir: config.dataDir,
      log: { info: output.note, warn: output.note },
    })
    const pool = createPool(database.owner, { max: 2, applicationName: 'switchyard doctor' })
    const gateway = createPool(database.connection, { max: 1, applicationName: 'switchyard doctor' })
    try {
      return await checkOpenDatabase(config, pool, gateway)
    } finally {
      await gateway.end()
      await pool.end()
      await database.close()
    }
  } catch (error) {
    return [{ check: 'database', ok: false, detail: (error as Error).message }]
  }
}

const skipped = (check: string): Finding => ({
  check,
  ok: false,
  skipped: true,
  detail: 'not checked: the data directory cannot be used',
})

async function checkOpenDatabase(config: Config, pool: Pool, gateway: Pool): Promise<Finding[]> {
  const migrations = await runCheck('migrations', () => checkMigrations(pool))
  const findings = [
    await runCheck('database', () => checkVersion(pool)),
    migrations,
    await checkDurability(pool),
    await runCheck('clock', () => checkClock(pool)),
  ]
  // The other checks read tables that pending migrations may create.
  if (!migrations.ok || (await pendingMigrations(pool)).length > 0) {
    return [...findings, await runCheck('master key', async () => checkMasterKey(config, undefined))]
  }
  const masterKey = await runCheck('master key', async () => checkMasterKey(config, await readMark(pool)))
  return [
    ...findings,
    await checkRoles(gateway),
    await checkJobs(gateway),
    await runCheck('account tiers', () => checkAccountTiers(pool, config)),
    masterKey,
    ...(masterKey.ok ? [...(await checkRotation(config, pool)), ...(await checkHosters(config, pool))] : []),
  ]
}

async function checkVersion(pool: Pool): Promise<string> {
  const { version, size } = await queryRow<{ version: string; size: string }>(
    pool,
    "SELECT current_setting('server_version') AS version, pg_size_pretty(pg_database_size(current_database())) AS size",
  )
  return `PostgreSQL ${version}, ${size}`
}

async function checkMigrations(pool: Pool): Promise<string> {
  const pending = await pendingMigrations(pool)
  return pending.length === 0 ? 'all applied' : `the next start applies ${pending.join(', ')}`
}

async function checkDurability(pool: Pool): Promise<Finding> {
  let warnings: string[] = []
  const finding = await runCheck('durability', async () => {
    warnings = (await durabilityWarnings(pool)).map(({ text }) => text)
    return warnings.length === 0 ? 'a commit survives a crash of PostgreSQL and of its machine' : warnings.join(' ')
  })
  return warnings.length === 0 ? finding : { ...finding, warning: true }
}

async function checkRoles(gateway: Pool): Promise<Finding> {
  let isWarning = false
  const finding = await runCheck('roles', async () => {
    isWarning = true
    if (await mayRewriteLedger(gateway))
      return 'The role of DATABASE_URL can rewrite the ledger. Set DATABASE_URL to a role that owns nothing, and DATABASE_OWNER_URL to the owner of the tables: docs/operating.md.'
    if (await mayReplaceFunctions(gateway))
      return 'The role of DATABASE_URL may create functions in the schema of the tables, so it could rewrite the ledger. Make the owner of the tables the owner of the schema too, and start again: docs/operating.md.'
    if (await mayActAsDesk(gateway))
      return 'The role of DATABASE_URL also signs people in and books payments, so an SQL injection could give credit. Set DATABASE_DESK_URL to a role of its own: docs/operating.md.'
    isWarning = false
    return 'the role that serves requests changes money only through the functions of the ledger, and books no payments'
  })
  return isWarning ? { ...finding, warning: true } : finding
}

async function checkJobs(gateway: Pool): Promise<Finding> {
  let warning: string | null = null
  const finding = await runCheck('jobs', async () => {
    // Before the first node, the tables of the queue may not exist.
    if ((await listLiveNodes(gateway)).length === 0) return 'no node runs'
    warning = lateJobWarning(await readLateJob(gateway))?.text ?? null
    return warning ?? 'no job is late'
  })
  return warning === null ? finding : { ...finding, warning: true }
}

/**
 * Rate limits count minutes and days by the database's clock. With a larger skew, the reset times in response
 * headers would not match them.
 */
const CLOCK_SKEW_MAX_MS = 2_000

async function checkClock(pool: Pool): Promise<string> {
  const beforeMs = Date.now()
  const { now } = await queryRow<{ now: Date }>(pool, 'SELECT clock_timestamp() AS now')
  const skewMs = Math.round(now.getTime() - (beforeMs + Date.now()) / 2)
  if (Math.abs(skewMs) > CLOCK_SKEW_MAX_MS) {
    const difference = `${Math.abs(skewMs)} ms ${skewMs > 0 ? 'ahead of' : 'behind'}`
    throw new Error(`the database's clock is ${difference} this machine's clock. Synchronise both with NTP.`)
  }
  return `within ${Math.abs(skewMs)} ms of the database's clock`
}

async function checkAccountTiers(pool: Pool, config: Config): Promise<string> {
  const { accountTiers } = withManaged((await readSettingsVersion(pool)).settings, config)
  const { rows } = await pool.query<{ tier: string }>('SELECT DISTINCT account_tier AS tier FROM customer ORDER BY 1')
  const missing = rows.map(({ tier }) => tier).filter(tier => !Object.hasOwn(accountTiers, tier))
  if (missing.length === 0) return 'the tier of every customer is configured'
  throw new Error(
    `Customers have tiers that are not configured: ${missing.join(', ')}. They get the limits of free. Add the tiers to account_tiers, or move the customers with: ${ownCommand('customer tier')}`,
  )
}

/** @param mark the mark of the key that the servers seal with; undefined if none has started yet */
function checkMasterKey(config: Config, mark: string | undefined): string {
  const keys = findMasterKeys(config)
  if (mark !== undefined && !keys?.use(mark)) throw new Error(masterKeyProblem(config, keys !== undefined))
  if (keys === undefined) return 'none yet; the first start creates it in the data directory'
  return hasKeyFile(config) ? masterKeyPath(config.dataDir) : 'SWITCHYARD_MASTER_KEY'
}

/** Warns of stored secrets that the current master key did not seal. No finding if there is one key, and it sealed all. */
async function checkRotation(config: Config, pool: Pool): Promise<Finding[]> {
  const check = 'key ring'
  try {
    const keys = findMasterKeys(config)
    const mark = await readMark(pool)
    if (keys === undefined || mark === undefined || !keys.use(mark)) return []
    const counts = await countSealed(pool, keys)
    const left = counts
      .filter(({ former, unknown }) => former + unknown > 0)
      .map(({ place, former, unknown }) => `${former + unknown} in ${nameOfPlace(place)}`)
    if (left.length > 0) {
      const cause = (await isResealed(pool))
        ? `no known key opens them; for details, run: ${ownCommand('key-ring status')}`
        : 'a job seals them again while a gateway runs'
      const detail = `The current master key did not seal ${left.join(', ')}: ${cause}`
      return [{ check, ok: true, warning: true, detail }]
    }
    const former = (await readRing(pool)).filter(({ state }) => state === 'former').length
    if (former === 0) return []
    const detail = `nothing needs ${counted(former, 'former key')} any more; to forget, run: ${ownCommand('key-ring forget')}`
    return [{ check, ok: true, detail }]
  } catch (error) {
    return [{ check, ok: false, detail: errorMessage(error) }]
  }
}

async function checkHosters(config: Config, pool: Pool): Promise<Finding[]> {
  const { allowPrivateUrls } = config.hosters
  const { rows } = await pool.query("SELECT FROM hoster WHERE state = 'active' LIMIT 1")
  if (rows.length === 0) return []
  const masterKeys = findMasterKeys(config)
  if (masterKeys === undefined) return [{ check: 'hoster', ok: false, detail: masterKeyProblem(config, false) }]
  const problems: Finding[] = []
  const { offers } = await readHosterOffers(pool, {
    masterKeys,
    nowMs: Date.now(),
    allowPrivateHosters: allowPrivateUrls,
    onProblem: detail => problems.push({ check: 'hoster', ok: false, detail }),
  })
  const servers = await checkEndpoints(offers, allowPrivateUrls ? undefined : createPinnedLookup())
  return [...problems, ...servers, ...checkAudits(config, offers)]
}
