import { Counter, Gauge, type Registry } from 'prom-client'
import type { ProviderKind } from '../base/domain/offer.ts'

/** What a node has and does now, read when Prometheus asks. */
export interface Gauges {
  readonly inFlight: () => number
  /** The memory budget for request bodies and answers, and the used part of it. */
  readonly memoryBytes: () => { readonly used: number; readonly budget: number }
  readonly settleQueue: () => { readonly length: number; readonly oldestMs: number }
  /** The journal of this node; null with `settlement: commit`. */
  readonly journal: () => { readonly bytes: number; readonly entries: number } | null
  /** Requests that wait for credit that running requests of their customers hold. */
  readonly waitingForCredit: () => number
  readonly damagedSegments: () => number
  /** The connections of each pool by its name, what waits for one, and what failed since the start. */
  readonly pools: () => ReadonlyMap<
    string,
    { readonly inUse: number; readonly idle: number; readonly waiting: number; readonly errors: number }
  >
  /** The agents of hosters with a control connection, and their idle data connections. */
  readonly agents: () => { readonly connected: number; readonly idle: number }
  /** The servers to choose from now. */
  readonly endpoints: () => Iterable<{ readonly endpointId: string; readonly kind: ProviderKind }>
  /** The last audit of the ledger by any node; undefined before the first. */
  readonly lastAudit: () => Promise<{ readonly atEpochMs: number; readonly violations: number } | undefined>
  /** The backups of the installation, as far as they are known. */
  readonly backups: () => Promise<
    | {
        readonly lastMs: number | null
        readonly test: { readonly atMs: number; readonly problem: string | null } | null
      }
    | undefined
  >
  /** The last runs of the schedules that archive and export usage rows. */
  readonly schedules: () => Promise<
    | readonly {
        readonly schedule: string
        readonly run: { readonly atMs: number; readonly problem: string | null }
      }[]
    | undefined
  >
  /** The job of any node that has been due for the longest time; undefined without any. */
  readonly lateJob: () => Promise<{ readonly lateS: number } | undefined>
}

/** Registers the metrics that are read from a node when Prometheus asks. */
export function registerGauges(registry: Registry, gauges: Gauges): void {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  gauge('switchyard_requests_in_flight', 'Generation requests being served; each holds credit.', gauges.inFlight)
  gauge(
    'switchyard_agents_connected',
    'Agents of hosters that are connected to this node.',
    () => gauges.agents().connected,
  )
  gauge(
    'switchyard_agent_idle_connections',
    'Connections of agents that wait for a request.',
    () => gauges.agents().idle,
  )
  gauge(
    'switchyard_memory_budget_used_bytes',
    'Memory that request bodies and answers occupy, of server.memory_budget_bytes.',
    () => gauges.memoryBytes().used,
  )
  gauge(
    'switchyard_memory_budget_bytes',
    'Memory that request bodies and answers may occupy.',
    () => gauges.memoryBytes().budget,
  )
  gauge('switchyard_settle_queue_length', 'Charges waiting to be committed.', () => gauges.settleQueue().length)
  gauge(
    'switchyard_settle_queue_age_seconds',
    'How long the oldest charge has been waiting to be committed; 0 when none waits.',
    () => gauges.settleQueue().oldestMs / 1000,
  )
  gauge(
    'switchyard_requests_waiting_for_credit',
    'Requests that wait for credit that running requests of their customers hold.',
    gauges.waitingForCredit,
  )
  gauge('switchyard_journal_bytes', 'Size of the journal of this node.', () => gauges.journal()?.bytes ?? 0)
  gauge(
    'switchyard_journal_entries',
    'Charges in the journal that are not known to be committed.',
    () => gauges.journal()?.entries ?? 0,
  )
  gauge(
    'switchyard_journal_damaged_segments',
    'Segments of journals that were found damaged since the start.',
    gauges.damagedSegments,
  )
  new Gauge({
    name: 'switchyard_database_connections',
    help: 'Connections to PostgreSQL by pool.',
    labelNames: ['pool', 'state'],
    registers,
    collect() {
      for (const [pool, { inUse, idle }] of gauges.pools()) {
        this.set({ pool, state: 'in_use' }, inUse)
        this.set({ pool, state: 'idle' }, idle)
      }
    },
  })
  new Gauge({
    name: 'switchyard_database_waiting',
    help: 'Statements that wait for a connection to PostgreSQL, by pool.',
    labelNames: ['pool'],
    registers,
    collect() {
      for (const [pool, { waiting }] of gauges.pools()) this.set({ pool }, waiting)
    },
  })
  new Counter({
    name: 'switchyard_database_errors_total',
    help: 'Statements and connections of PostgreSQL that failed, by pool.',
    labelNames: ['pool'],
    registers,
    collect() {
      this.reset()
      for (const [pool, { errors }] of gauges.pools()) this.inc({ pool }, errors)
    },
  })
  // All workers report on the same database, so their figures must not be summed: the highest is the worst and the
  // latest.
  const sharedGauge = { registers, aggregator: 'max' } as const
  new Gauge({
    name: 'switchyard_job_delay_seconds',
    help: 'How long the oldest due job of all nodes has been waiting; 0 when none waits.',
    ...sharedGauge,
    async collect() {
      this.set((await gauges.lateJob())?.lateS ?? 0)
    },
  })
  new Gauge({
    name: 'switchyard_ledger_audit_violations',
    help: 'Violations that the last audit of the ledger found.',
    ...sharedGauge,
    async collect() {
      this.set((await gauges.lastAudit())?.violations ?? 0)
    },
  })
  new Gauge({
    name: 'switchyard_ledger_audit_last_success_timestamp_seconds',
    help: 'When an audit of the ledger last completed, with any result; 0 before the first.',
    ...sharedGauge,
    async collect() {
      this.set(((await gauges.lastAudit())?.atEpochMs ?? 0) / 1000)
    },
  })
  new Gauge({
    name: 'switchyard_backup_last_success_timestamp_seconds',
    help: 'When the last complete backup began; 0 if none is known.',
    ...sharedGauge,
    async collect() {
      this.set(((await gauges.backups())?.lastMs ?? 0) / 1000)
    },
  })
  new Gauge({
    name: 'switchyard_restore_test_timestamp_seconds',
    help: 'When a backup was last restored as a test, with any result; 0 before the first.',
    ...sharedGauge,
    async collect() {
      this.set(((await gauges.backups())?.test?.atMs ?? 0) / 1000)
    },
  })
  new Gauge({
    name: 'switchyard_restore_test_failed',
    help: '1 if the last restore test failed, else 0.',
    ...sharedGauge,
    async collect() {
      const problem = (await gauges.backups())?.test?.problem ?? null
      this.set(problem === null ? 0 : 1)
    },
  })
  new Gauge({
    name: 'switchyard_usage_schedule_timestamp_seconds',
    help: 'When a schedule of usage rows last ended, with any result.',
    labelNames: ['schedule'],
    ...sharedGauge,
    async collect() {
      for (const { schedule, run } of (await gauges.schedules()) ?? []) this.set({ schedule }, run.atMs / 1000)
    },
  })
  new Gauge({
    name: 'switchyard_usage_schedule_failed',
    help: '1 if the last run of a schedule of usage rows failed, else 0.',
    labelNames: ['schedule'],
    ...sharedGauge,
    async collect() {
      for (const { schedule, run } of (await gauges.schedules()) ?? [])
        this.set({ schedule }, run.problem === null ? 0 : 1)
    },
  })
}
