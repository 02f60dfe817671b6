import { Counter, collectDefaultMetrics, Histogram, type HistogramConfiguration, Registry } from 'prom-client'
import type { UsageParts } from '../base/domain/answer-event.ts'
import type { ErrorCode } from '../base/domain/errors.ts'
import type { Receipt } from '../base/domain/handoff.ts'
import type { Settlement } from '../money/ledger/settlement/settlement.ts'
import { type Gauges, registerGauges } from './node-gauges.ts'

/**
 * The metrics of the gateway. No label holds a customer or a key: their number is unbounded, and reports cover them. Models
 * and servers are bounded: see `OfferCounts`.
 */
export interface Metrics {
  readonly registry: Registry
  /** Counts a finished response. `path` is the route, so that ids in addresses do not create series. */
  request(facts: { path: string; status: number; elapsedMs: number }): void
  /** Counts an answer with an error. */
  refusal(code: ErrorCode): void
  /** Counts a settled generation request: its attempts, and its answer at the offer that served it. */
  settled(settlement: SettledFacts, receipt: Pick<Receipt, 'billedParts'>): void
  /** Counts an ejection of an offer of this server. */
  ejection(endpointId: string): void
  /** Counts an answer for which the hoster reported more tokens than the gateway accepted. */
  overReport(): void
  /** Notes requests whose prompts and answers could not be recorded. */
  contentLost(count: number): void
  /** Counts a job that failed; the queue tries it again. */
  jobFailure(task: string): void
  /** Counts a restart of the job queue. */
  queueRestart(): void
}

const REQUEST_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const ANSWER_BUCKETS_S = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const FIRST_TOKEN_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 30, 60]

/** Creates the metrics in a new registry, so that two gateways in one process do not share counts. */
export function createMetrics(gauges: Gauges): Metrics {
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
  const refusals = batchedCounter(registry, 'switchyard_refusals_total', 'Answers with an error, by its code.', [
    'code',
  ])
  const offers = new OfferCounts(registry)
  const durations = batchedHistogram({
    name: 'switchyard_request_duration_seconds',
    help: 'Time from a generation request to its settlement.',
    labelNames: ['model', 'endpoint', 'provider'],
    buckets: ANSWER_BUCKETS_S,
    registers,
  })
  const firstTokens = batchedHistogram({
    name: 'switchyard_first_token_seconds',
    help: 'Time from the start of the successful attempt to its first content.',
    labelNames: ['model', 'endpoint', 'provider'],
    buckets: FIRST_TOKEN_BUCKETS_S,
    registers,
  })
  const endpointName = boundedNames(ENDPOINTS_MAX)
  const attempts = batchedCounter(
    registry,
    'switchyard_attempts_total',
    'Attempts at upstreams by outcome.',
    ['provider', 'outcome', 'endpoint'],
    // An alert watches this series. Prometheus sees no increase in a series that begins with 1, so it begins with 0.
    add => {
      for (const { kind, endpointId } of gauges.endpoints())
        add(0, kind, 'credential_rejected', endpointName(endpointId))
    },
  )
  const ejections = batchedCounter(registry, 'switchyard_ejections_total', 'Offers that were kept away for failing.', [
    'endpoint',
  ])
  const overReports = new Counter({
    name: 'switchyard_over_reports_total',
    help: 'Answers for which a hoster reported more tokens than the gateway accepted.',
    registers,
  })
  const lostContents = new Counter({
    name: 'switchyard_content_lost_total',
    help: 'Requests whose prompts and answers were to be recorded and were not.',
    registers,
  })

  const jobFailures = batchedCounter(registry, 'switchyard_job_failures_total', 'Jobs that failed, by task.', ['task'])
  const queueRestarts = new Counter({
    name: 'switchyard_job_queue_restarts_total',
    help: 'Restarts of the job queue of this node, because it got no jobs.',
    registers,
  })
  registerGauges(registry, gauges)

  return {
    registry,
    request({ path, status, elapsedMs }) {
      requests(1, path, status)
      duration(elapsedMs / 1000, { path })
    },
    refusal: code => refusals(1, code),
    settled(settlement, { billedParts }) {
      for (const { provider, outcome, endpointId } of settlement.attempts)
        attempts(1, provider, outcome, endpointName(endpointId))
      const labels = offers.add(settlement, billedParts)
      durations(settlement.latencyMs / 1000, labels)
      if (settlement.firstTokenMs !== null) firstTokens(settlement.firstTokenMs / 1000, labels)
    },
    ejection: endpointId => ejections(1, endpointName(endpointId)),
    overReport: () => overReports.inc(),
    contentLost: count => lostContents.inc(count),
    jobFailure: task => jobFailures(1, task),
    queueRestart: () => queueRestarts.inc(),
  }
}

/** Servers with series of their own. */
const ENDPOINTS_MAX = 200

/** Returns a function that passes on the first `max` names and calls all others `OTHERS`. */
function boundedNames(max: number): (name: string) => string {
  const names = new Set<string>()
  return name => {
    if (names.has(name)) return name
    if (names.size === max) return OTHERS
    names.add(name)
    return name
  }
}

const BATCH_MAX = 256

type Labels = Readonly<Record<string, string>>

/**
 * Returns a histogram that passes its observations to prom-client in batches of 256, and before prom-client reads it.
 * Passing each one immediately took four times as long.
 */
export function batchedHistogram(config: HistogramConfiguration<string>) {
  let seconds: number[] = []
  let labels: Labels[] = []
  const flush = () => {
    const observed = seconds
    const labelled = labels
    seconds = []
    labels = []
    observed.forEach((value, index) => {
      histogram.observe(labelled[index] ?? {}, value)
    })
  }
  const histogram = new Histogram({ ...config, collect: flush })
  return (observedS: number, label: Labels) => {
    labels.push(label)
    if (seconds.push(observedS) === BATCH_MAX) flush()
  }
}

type LabelValue = string | number
type Add = (amount: number, first: LabelValue, second?: LabelValue, third?: LabelValue) => void
type LabelNames = readonly [string, string?, string?]

/**
 * Returns a counter with one to three labels that sums its increments and updates prom-client when it is read.
 *
 * @param beforeRead may add zeros, for series that an alert watches
 */
export function batchedCounter(
  registry: Registry,
  name: string,
  help: string,
  labelNames: LabelNames,
  beforeRead: (add: Add) => void = () => {},
): Add {
  const sums = new Map<LabelValue, Map<LabelValue, Map<LabelValue, number>>>()
  const add: Add = (amount, first, second = '', third = '') => {
    const byThird = mapAt(mapAt(sums, first), second)
    byThird.set(third, (byThird.get(third) ?? 0) + amount)
  }
  new Counter({
    name,
    help,
    labelNames: labelNames.filter(each => each !== undefined),
    registers: [registry],
    collect() {
      beforeRead(add)
      this.reset()
      for (const [first, bySecond] of sums)
        for (const [second, byThird] of bySecond)
          for (const [third, sum] of byThird) this.inc(labelled(labelNames, [first, second, third]), sum)
    },
  })
  return add
}

function mapAt<Key, Inner>(outer: Map<LabelValue, Map<Key, Inner>>, key: LabelValue): Map<Key, Inner> {
  let inner = outer.get(key)
  if (inner === undefined) {
    inner = new Map()
    outer.set(key, inner)
  }
  return inner
}

function labelled(names: LabelNames, values: readonly LabelValue[]): Record<string, LabelValue> {
  return Object.fromEntries(names.flatMap((name, index) => (name === undefined ? [] : [[name, values[index] ?? '']])))
}

/** What is counted of a settlement. */
export type SettledFacts = Pick<
  Settlement,
  | 'modelId'
  | 'endpointId'
  | 'provider'
  | 'hosterId'
  | 'outcome'
  | 'latencyMs'
  | 'firstTokenMs'
  | 'costNanos'
  | 'inputTokens'
  | 'outputTokens'
  | 'attempts'
>

/** Pairs of a model and a server with series of their own, for one process. A histogram has 15 series for each. */
const PAIRS_MAX = 200

/** The label of models and servers that are too many for series of their own. */
export const OTHERS = '(others)'

/** The counts of a model at a server. Tokens are those billed; each is of one kind only. */
interface OfferSeries {
  readonly labels: Labels
  /** The labels of histograms. */
  readonly timing: Labels
  readonly requestsByOutcome: Map<string, number>
  readonly tokens: Record<TokenKind, number>
  chargedNanos: number
}

type TokenKind = 'input' | 'cache_read' | 'cache_write' | 'output' | 'reasoning'

/**
 * Counts settled requests by model and server. A request that no server answered has an empty `endpoint` and the
 * provider `none`. The first `PAIRS_MAX` pairs have series of their own, and all others one for each kind of provider:
 * a hoster may offer any number of models.
 */
export class OfferCounts {
  readonly #byEndpoint = new Map<string, Map<string, OfferSeries>>()
  readonly #others = new Map<string, OfferSeries>()
  #pairs = 0

  constructor(registry: Registry) {
    const all = () => this.#all()
    const registers = [registry]
    const labelNames = ['model', 'endpoint', 'provider', 'hoster']
    new Counter({
      name: 'switchyard_requests_total',
      help: 'Settled generation requests by outcome.',
      labelNames: [...labelNames, 'outcome'],
      registers,
      collect() {
        this.reset()
        for (const { labels, requestsByOutcome } of all())
          for (const [outcome, count] of requestsByOutcome) this.inc({ ...labels, outcome }, count)
      },
    })
    new Counter({
      name: 'switchyard_charged_nano_usd_total',
      help: 'Money charged to customers, in nano-USD. A float; only the ledger is exact.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const { labels, chargedNanos } of all()) this.inc(labels, chargedNanos)
      },
    })
    new Counter({
      name: 'switchyard_billed_tokens_total',
      help: 'Tokens billed, by kind. Each token is of one kind: input is what no cache had, output what is no reasoning.',
      labelNames: [...labelNames, 'kind'],
      registers,
      collect() {
        this.reset()
        for (const { labels, tokens } of all())
          for (const [kind, count] of Object.entries(tokens)) this.inc({ ...labels, kind }, count)
      },
    })
  }

  /** Counts a settled request. Returns the labels of its times. */
  add(settled: SettledFacts, parts: UsageParts | null): Labels {
    const series = this.#seriesOf(settled)
    const { requestsByOutcome, tokens } = series
    requestsByOutcome.set(settled.outcome, (requestsByOutcome.get(settled.outcome) ?? 0) + 1)
    series.chargedNanos += Number(settled.costNanos)
    const cacheRead = parts?.cacheReadTokens ?? 0
    const cacheWrite = parts === null ? 0 : parts.cacheWriteTokens + parts.cacheWriteLongTokens
    const reasoning = parts?.reasoningTokens ?? 0
    tokens.input += Math.max(0, settled.inputTokens - cacheRead - cacheWrite)
    tokens.cache_read += cacheRead
    tokens.cache_write += cacheWrite
    tokens.output += Math.max(0, settled.outputTokens - reasoning)
    tokens.reasoning += reasoning
    return series.timing
  }

  #seriesOf({ endpointId, modelId, provider, hosterId }: SettledFacts): OfferSeries {
    const endpoint = endpointId ?? ''
    const known = this.#byEndpoint.get(endpoint)?.get(modelId)
    if (known !== undefined) return known
    if (this.#pairs === PAIRS_MAX) {
      let series = this.#others.get(provider)
      if (series === undefined) {
        series = emptySeries({ model: OTHERS, endpoint: OTHERS, provider, hoster: OTHERS })
        this.#others.set(provider, series)
      }
      return series
    }
    this.#pairs++
    const series = emptySeries({ model: modelId, endpoint, provider, hoster: hosterId ?? '' })
    mapAt(this.#byEndpoint, endpoint).set(modelId, series)
    return series
  }

  *#all(): Generator<OfferSeries> {
    for (const byModel of this.#byEndpoint.values()) yield* byModel.values()
    yield* this.#others.values()
  }
}

function emptySeries(labels: {
  readonly model: string
  readonly endpoint: string
  readonly provider: string
  readonly hoster: string
}): OfferSeries {
  const { model, endpoint, provider } = labels
  return {
    labels,
    timing: { model, endpoint, provider },
    requestsByOutcome: new Map(),
    tokens: { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 },
    chargedNanos: 0,
  }
}
