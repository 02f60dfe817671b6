import { Counter, collectDefaultMetrics, Gauge, Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import type { AttemptOutcome } from '../domain/handoff.ts'
import type { Nanos } from '../domain/money.ts'
import { type ProviderKind, providerKinds } from '../domain/offer.ts'

/** What the gateway counts. No label names a customer, key or model: those grow without bound, and reports have them. */
export interface Metrics {
  readonly registry: Registry
  /** A response ended. `path` is the route's, so that ids in addresses make no series of their own. */
  request(facts: { path: string; status: number; elapsedMs: number }): void
  firstToken(provider: ProviderKind, firstTokenMs: number): void
  attempt(provider: ProviderKind, outcome: AttemptOutcome): void
  /** A hoster reported more tokens than were believed. */
  overReport(): void
  /** A charge was committed. */
  charge(provider: ProviderKind, facts: { costNanos: Nanos; inputTokens: number; outputTokens: number }): void
}

const REQUEST_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const FIRST_TOKEN_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 30, 60]

/** A registry of its own for each call, so that two gateways in one process do not share counts. */
export function createMetrics(gauges: {
  inFlight: () => number
  settleQueueLength: () => number
  /** The last audit of the ledger, by whatever node; undefined when there was none yet. */
  lastAudit: () => Promise<{ readonly atEpochMs: number; readonly violations: number } | undefined>
}): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]

  const requests = summed(registry, 'switchyard_http_requests_total', 'Responses by route and status.', [
    'path',
    'status',
  ])
  const duration = gathered({
    name: 'switchyard_http_request_duration_seconds',
    help: 'From the request to the last byte of its response.',
    labelNames: ['path'],
    buckets: REQUEST_BUCKETS_S,
    registers,
  })
  const firstTokens = gathered({
    name: 'switchyard_first_token_seconds',
    help: 'From the start of the winning attempt to its first content.',
    labelNames: ['provider'],
    buckets: FIRST_TOKEN_BUCKETS_S,
    registers,
  })
  const attempts = summed(registry, 'switchyard_attempts_total', 'Tries at upstreams by how they ended.', [
    'provider',
    'outcome',
  ])
  // An alarm is set on it, and it may happen once in five minutes: Prometheus sees no increase in a series that begins with 1.
  for (const provider of providerKinds) attempts(0, provider, 'credential_rejected')
  const charges = summed(
    registry,
    'switchyard_charged_nano_usd_total',
    'Money charged to customers, nano-USD. A float: the ledger has the exact sum.',
    ['provider'],
  )
  const tokens = summed(registry, 'switchyard_billed_tokens_total', 'Tokens billed.', ['provider', 'direction'])
  const overReports = new Counter({
    name: 'switchyard_over_reports_total',
    help: 'Answers of hosters that reported more tokens than were believed.',
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
    name: 'switchyard_settle_queue_length',
    help: 'Charges waiting to be committed.',
    registers,
    collect() {
      this.set(gauges.settleQueueLength())
    },
  })
  // Each node tells of the one ledger: of several workers the worst and the latest is the truth, and not the sum.
  const ofLedger = { registers, aggregator: 'max' } as const
  new Gauge({
    name: 'switchyard_ledger_audit_violations',
    help: 'What the last audit of the ledger found wrong.',
    ...ofLedger,
    async collect() {
      this.set((await gauges.lastAudit())?.violations ?? 0)
    },
  })
  new Gauge({
    name: 'switchyard_ledger_audit_last_success_timestamp_seconds',
    help: 'When an audit of the ledger last ran to its end, whatever it found; 0 before the first.',
    ...ofLedger,
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
    charge(provider, { costNanos, inputTokens, outputTokens }) {
      charges(Number(costNanos), provider)
      tokens(inputTokens, provider, 'input')
      tokens(outputTokens, provider, 'output')
    },
  }
}

const GATHERED_MAX = 256

/**
 * A histogram with one label that gets what is observed 256 at a time, and all of it before it is read. Each by itself, among everything else
 * that a request does, took four times as long.
 */
function gathered(config: HistogramConfiguration<string> & { labelNames: [string] }) {
  const [labelName] = config.labelNames
  let seconds: number[] = []
  let labels: string[] = []
  const handOver = () => {
    const observed = seconds
    const labelled = labels
    seconds = []
    labels = []
    observed.forEach((value, at) => {
      histogram.observe({ [labelName]: labelled[at]! }, value)
    })
  }
  const histogram = new Histogram({ ...config, collect: handOver })
  return (observedS: number, label: string) => {
    labels.push(label)
    if (seconds.push(observedS) === GATHERED_MAX) handOver()
  }
}

type Add = (amount: number, first: string | number, second?: string | number) => void

/**
 * A counter with one or two labels that is summed here and handed to prom-client when somebody reads it: prom-client sorts and
 * joins the labels at every increment, six times a request.
 */
function summed(registry: Registry, name: string, help: string, labelNames: [string] | [string, string]): Add {
  const sums = new Map<string | number, Map<string | number, number>>()
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset()
      const [outer, inner] = labelNames
      for (const [first, seconds] of sums) {
        for (const [second, sum] of seconds) this.inc({ [outer]: first, ...(inner && { [inner]: second }) }, sum)
      }
    },
  })
  return (amount, first, second = '') => {
    let seconds = sums.get(first)
    if (seconds === undefined) {
      seconds = new Map()
      sums.set(first, seconds)
    }
    seconds.set(second, (seconds.get(second) ?? 0) + amount)
  }
}
