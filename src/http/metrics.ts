import { Counter, collectDefaultMetrics, Gauge, Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import type { AttemptOutcome } from '../base/domain/handoff.ts'
import type { Nanos } from '../base/domain/money.ts'
import { type ProviderKind, providerKinds } from '../base/domain/offer.ts'

/**
 * The metrics of the gateway. No label holds a customer, key or model: their number is unbounded, and reports
 * cover them.
 */
export interface Metrics {
  readonly registry: Registry
  /** Counts a finished response. `path` is the route, so that ids in addresses do not create series. */
  request(facts: { path: string; status: number; elapsedMs: number }): void
  firstToken(provider: ProviderKind, firstTokenMs: number): void
  attempt(provider: ProviderKind, outcome: AttemptOutcome): void
  /** Counts an answer for which the hoster reported more tokens than the gateway accepted. */
  overReport(): void
  /** Counts a restart of the job queue. */
  queueRestart(): void
  /** Counts a committed charge. */
  charge(provider: ProviderKind, facts: { costNanos: Nanos; inputTokens: number; outputTokens: number }): void
}

const REQUEST_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const FIRST_TOKEN_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 30, 60]

/** Creates the metrics in a new registry, so that two gateways in one process do not share counts. */
export function createMetrics(gauges: {
  inFlight: () => number
  /** The used part of the memory budget for request bodies and answers. */
  memoryUsedBytes: () => number
  settleQueueLength: () => number
  /** Requests that wait for credit that running requests of their customers hold. */
  waitingForCredit: () => number
  damagedSegments: () => number
  /** The agents of hosters with a control connection, and their idle data connections. */
  agents: () => { readonly connected: number; readonly idle: number }
  /** The last audit of the ledger by any node; undefined before the first. */
  lastAudit: () => Promise<{ readonly atEpochMs: number; readonly violations: number } | undefined>
  /** The job of any node that has been due for the longest time; undefined without any. */
  lateJob: () => Promise<{ readonly lateS: number } | undefined>
}): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]

  const requests = batchedCounter(registry, 'switchyard_http_requests_total', 'Responses by route and status.', [
    'path',
    'status',
  ])
  const duration = batchedHistogram({
    name: 'switchyard_http_request_duration_seconds',
    help: 'Time from the request to the last byte of its response.',
    labelNames: ['path'],
    buckets: REQUEST_BUCKETS_S,
    registers,
  })
  const firstTokens = batchedHistogram({
    name: 'switchyard_first_token_seconds',
    help: 'Time from the start of the successful attempt to its first content.',
    labelNames: ['provider'],
    buckets: FIRST_TOKEN_BUCKETS_S,
    registers,
  })
  const attempts = batchedCounter(registry, 'switchyard_attempts_total', 'Attempts at upstreams by outcome.', [
    'provider',
    'outcome',
  ])
  // An alert watches this series. Prometheus sees no increase in a series that begins with 1, so it begins
  // with 0.
  for (const provider of providerKinds) attempts(0, provider, 'credential_rejected')
  const charges = batchedCounter(
    registry,
    'switchyard_charged_nano_usd_total',
    'Money charged to customers, in nano-USD. A float; only the ledger is exact.',
    ['provider'],
  )
  const tokens = batchedCounter(registry, 'switchyard_billed_tokens_total', 'Tokens billed.', ['provider', 'direction'])
  const overReports = new Counter({
    name: 'switchyard_over_reports_total',
    help: 'Answers for which a hoster reported more tokens than the gateway accepted.',
    registers,
  })
  new Gauge({
    name: 'switchyard_requests_in_flight',
    help: 'Chat requests being served.',
    registers,
    collect() {
      this.set(gauges.inFlight())
    },
  })
  new Gauge({
    name: 'switchyard_agents_connected',
    help: 'Agents of hosters that are connected to this node.',
    registers,
    collect() {
      this.set(gauges.agents().connected)
    },
  })
  new Gauge({
    name: 'switchyard_agent_idle_connections',
    help: 'Connections of agents that wait for a request.',
    registers,
    collect() {
      this.set(gauges.agents().idle)
    },
  })
  new Gauge({
    name: 'switchyard_memory_budget_used_bytes',
    help: 'Memory that request bodies and answers occupy, of server.memory_budget_bytes.',
    registers,
    collect() {
      this.set(gauges.memoryUsedBytes())
    },
  })
  new Gauge({
    name: 'switchyard_settle_queue_length',
    help: 'Charges waiting to be committed.',
    registers,
    collect() {
      this.set(gauges.settleQueueLength())
    },
  })
  new Gauge({
    name: 'switchyard_requests_waiting_for_credit',
    help: 'Requests that wait for credit that running requests of their customers hold.',
    registers,
    collect() {
      this.set(gauges.waitingForCredit())
    },
  })
  new Gauge({
    name: 'switchyard_journal_damaged_segments',
    help: 'Segments of journals that were found damaged since the start.',
    registers,
    collect() {
      this.set(gauges.damagedSegments())
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
  const queueRestarts = new Counter({
    name: 'switchyard_job_queue_restarts_total',
    help: 'Restarts of the job queue of this node, because it got no jobs.',
    registers,
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

  return {
    registry,
    request({ path, status, elapsedMs }) {
      requests(1, path, status)
      duration(elapsedMs / 1000, path)
    },
    firstToken: (provider, firstTokenMs) => firstTokens(firstTokenMs / 1000, provider),
    attempt: (provider, outcome) => attempts(1, provider, outcome),
    overReport: () => overReports.inc(),
    queueRestart: () => queueRestarts.inc(),
    charge(provider, { costNanos, inputTokens, outputTokens }) {
      charges(Number(costNanos), provider)
      tokens(inputTokens, provider, 'input')
      tokens(outputTokens, provider, 'output')
    },
  }
}

const BATCH_MAX = 256

/**
 * Returns a histogram with one label that passes its observations to prom-client in batches of 256, and before
 * prom-client reads it. Passing each one immediately took four times as long.
 */
function batchedHistogram(config: HistogramConfiguration<string> & { labelNames: [string] }) {
  const [labelName] = config.labelNames
  let seconds: number[] = []
  let labels: string[] = []
  const flush = () => {
    const observed = seconds
    const labelled = labels
    seconds = []
    labels = []
    observed.forEach((value, index) => {
      histogram.observe({ [labelName]: labelled[index]! }, value)
    })
  }
  const histogram = new Histogram({ ...config, collect: flush })
  return (observedS: number, label: string) => {
    labels.push(label)
    if (seconds.push(observedS) === BATCH_MAX) flush()
  }
}

type Add = (amount: number, first: string | number, second?: string | number) => void

/**
 * Returns a counter with one or two labels that sums its increments and updates prom-client when it is read:
 * prom-client would sort and join the labels at each of a request's six increments.
 */
function batchedCounter(registry: Registry, name: string, help: string, labelNames: [string] | [string, string]): Add {
  const sums = new Map<string | number, Map<string | number, number>>()
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset()
      const [outer, inner] = labelNames
      for (const [first, bySecond] of sums) {
        for (const [second, sum] of bySecond) this.inc({ [outer]: first, ...(inner && { [inner]: second }) }, sum)
      }
    },
  })
  return (amount, first, second = '') => {
    let bySecond = sums.get(first)
    if (bySecond === undefined) {
      bySecond = new Map()
      sums.set(first, bySecond)
    }
    bySecond.set(second, (bySecond.get(second) ?? 0) + amount)
  }
}
