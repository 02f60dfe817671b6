import type { PoolUse } from '../../base/db/counted-pool.ts'
import { ByteBudget } from '../../base/runtime/counted-memory.ts'
import { createLastKnown } from '../../base/runtime/last-known.ts'
import { memoryLimitBytes } from '../../base/runtime/process-limits.ts'
import { type AccessLog, openAccessLog } from '../../http/access-log.ts'
import type { AllowedHosts } from '../../http/allowed-hosts.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { healthz, readyz } from '../../http/endpoints/health.ts'
import { securityTxt } from '../../http/endpoints/security-txt.ts'
import { createInFlight, type InFlight } from '../../http/in-flight.ts'
import { createMetrics, type Metrics } from '../../http/metrics.ts'
import { startTelemetry } from '../../http/telemetry/start-telemetry.ts'
import type { Telemetry } from '../../http/telemetry/telemetry.ts'
import { readLastAudit } from '../../money/ledger/audit/last-audit.ts'
import { noBackups, readBackupState } from '../../operator/backup-state.ts'
import { readLateJob } from '../../operator/late-job.ts'
import { readScheduledRuns } from '../../operator/scheduled-run.ts'
import { allowedHostsOf } from '../allowed-hosts-of.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'
import { usageSchedules } from './usage-jobs.ts'

/** Watched by operators and load balancers: running requests, metrics, health. */
export interface Service {
  readonly inFlight: InFlight
  readonly allowedHosts: AllowedHosts
  /** The memory that request bodies and answers of this node may occupy. */
  readonly memory: ByteBudget
  readonly metrics: Metrics
  /** Null: off. */
  readonly accessLog: AccessLog | null
  /** Null: off. */
  readonly telemetry: Telemetry | null
  readonly endpoints: readonly Endpoint[]
}

export async function createService(
  { config, scheduler, clock, random, log, started, version, masterKeys, timeouts }: ComposeContext,
  database: Database,
  { ledger, journal, damagedSegments }: Money,
  { agents, catalog, health }: Supply,
): Promise<Service> {
  const { general, lookups } = database
  const { maxInFlight, memoryBudgetBytes, workers } = config.server
  const memory = new ByteBudget(memoryBudgetBytes ?? Math.floor(memoryLimitBytes(workers) / 4))
  const inFlight = createInFlight({ max: maxInFlight, memory })
  const metrics = createMetrics({
    inFlight: () => inFlight.count,
    memoryBytes: () => ({ used: memory.usedBytes, budget: memory.maxBytes }),
    agents: () => agents.counts,
    settleQueue: () => ({ length: ledger.pending.settlements, oldestMs: ledger.pending.oldestSettlementMs }),
    journal: () => journal,
    pools: () => poolUses(database),
    endpoints: () => new Set(catalog.current().offers.map(({ endpoint }) => endpoint)),
    damagedSegments,
    waitingForCredit: () => ledger.pending.waitingForCredit,
    lastAudit: createLastKnown({ read: () => readLastAudit(general), scheduler }),
    schedules: createLastKnown({ read: () => readScheduledRuns(general, usageSchedules(config)), scheduler }),
    backups: createLastKnown({
      read: async () => (config.databaseUrl === null ? readBackupState(general) : noBackups),
      scheduler,
    }),
    lateJob: createLastKnown({ read: () => readLateJob(general), scheduler }),
  })
  health.onChange(({ event, offerId }) => {
    const offer = catalog.current().offer(offerId)
    if (event !== 'restored' && offer !== undefined) metrics.ejection(offer.endpoint.endpointId)
  })
  const accessLog = openAccessLog({ settings: config.accessLog, clock, random, log })
  started.defer(() => accessLog?.close())
  const { telemetry: settings } = config
  if (settings.ignored.length > 0)
    log.warn(
      { variables: settings.ignored },
      'variables of OpenTelemetry have values that are not known here, and count as not set',
    )
  const samplingKey = masterKeys.derived('sampling of traces').current
  const telemetry = await startTelemetry({
    settings,
    version,
    samplingKey,
    clock,
    random,
    log,
    spanDelayMs: timeouts.spanDelayMs,
    closeMs: timeouts.telemetryCloseMs,
  })
  return {
    inFlight,
    allowedHosts: allowedHostsOf(config),
    memory,
    metrics,
    accessLog,
    telemetry,
    endpoints: [
      healthz(),
      securityTxt({ contact: config.security.contact, publicBaseUrl: config.server.publicBaseUrl, clock }),
      readyz({ isClosing: () => inFlight.isClosing, pingDatabase: () => lookups.query('SELECT 1') }),
    ],
  }
}

/** The use of each pool, by its name. */
function poolUses({ lookups, deskLookups, ...pools }: Database): ReadonlyMap<string, PoolUse> {
  return new Map(Object.entries(pools).map(([name, { use }]) => [name, use]))
}
