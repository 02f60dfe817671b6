import { type Attributes, ValueType } from '@opentelemetry/api'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AggregationTemporality,
  type CollectionResult,
  DataPointType,
  type HistogramMetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import { errorType, genAi, genAiMetrics } from './attributes.ts'
import { operationName, providerName } from './provider-name.ts'
import { hrTime } from './span.ts'

type MeasuredSettlement = Pick<
  Settlement,
  'modelId' | 'inputTokens' | 'outputTokens' | 'latencyMs' | 'firstTokenMs' | 'success' | 'outcome'
>

/** Pairs of a model and a provider with series of their own, for one process. */
const PAIRS_MAX = 200
const OTHERS = '(others)'

/**
 * The metrics of the GenAI conventions. They are counted here and handed to the SDK when it exports: its own histograms
 * take a microsecond for each value, which four values for each request would make a twentieth of the request.
 */
export class GenAiMetrics implements MetricProducer {
  readonly #clock: Pick<Clock, 'epochMs'>
  readonly #version: string
  readonly #startMs: number
  readonly #series = new Map<string, PairSeries>()

  constructor(clock: Pick<Clock, 'epochMs'>, version: string) {
    this.#clock = clock
    this.#version = version
    this.#startMs = clock.epochMs()
  }

  /** Counts a settled request. */
  add(settlement: MeasuredSettlement, { offer }: Pick<Receipt, 'offer'>, job: Pick<ChatJob, 'task' | 'stream'>): void {
    const { modelId, inputTokens, outputTokens, latencyMs, firstTokenMs, success, outcome } = settlement
    const provider = offer === null ? null : providerName(offer.endpoint)
    const { tokens, durations, firstChunks } = this.#seriesOf(operationName(job, offer), provider, modelId)
    if (provider !== null) {
      tokens.input.add(inputTokens)
      tokens.output.add(outputTokens)
    }
    const error = success ? '' : outcome
    let duration = durations.get(error)
    if (duration === undefined) {
      duration = new Series(genAiMetrics.duration.boundaries)
      durations.set(error, duration)
    }
    duration.add(latencyMs / 1_000)
    if (job.stream && firstTokenMs !== null) firstChunks.add(firstTokenMs / 1_000)
  }

  /** @param provider null: no server answered */
  #seriesOf(operation: string, provider: string | null, model: string): PairSeries {
    const key = `${operation} ${provider} ${model}`
    const known = this.#series.get(key)
    if (known !== undefined) return known
    if (model !== OTHERS && this.#series.size >= PAIRS_MAX) return this.#seriesOf(operation, provider, OTHERS)
    const series: PairSeries = {
      attributes: {
        [genAi.operation]: operation,
        ...(provider !== null && { [genAi.provider]: provider }),
        [genAi.requestModel]: model,
      },
      tokens: { input: new Series(genAiMetrics.tokens.boundaries), output: new Series(genAiMetrics.tokens.boundaries) },
      durations: new Map(),
      firstChunks: new Series(genAiMetrics.firstChunk.boundaries),
    }
    this.#series.set(key, series)
    return series
  }

  collect(): Promise<CollectionResult> {
    const all = [...this.#series.values()]
    const period = [this.#startMs, this.#clock.epochMs()] as const
    const metrics = [
      metricData(
        genAiMetrics.tokens,
        period,
        all.flatMap(({ attributes, tokens }) => [
          { series: tokens.input, attributes: { ...attributes, [genAi.tokenType]: 'input' } },
          { series: tokens.output, attributes: { ...attributes, [genAi.tokenType]: 'output' } },
        ]),
      ),
      metricData(
        genAiMetrics.duration,
        period,
        all.flatMap(({ attributes, durations }) =>
          [...durations].map(([error, series]) => ({
            series,
            attributes: error === '' ? attributes : { ...attributes, [errorType]: error },
          })),
        ),
      ),
      metricData(
        genAiMetrics.firstChunk,
        period,
        all.map(({ attributes, firstChunks }) => ({
          series: firstChunks,
          attributes,
        })),
      ),
    ].filter(({ dataPoints }) => dataPoints.length > 0)
    const scope = { name: 'switchyard', version: this.#version }
    const scopeMetrics = metrics.length === 0 ? [] : [{ scope, metrics }]
    // The SDK takes its own resource instead.
    return Promise.resolve({ resourceMetrics: { resource: resourceFromAttributes({}), scopeMetrics }, errors: [] })
  }
}

interface PairSeries {
  readonly attributes: Attributes
  readonly tokens: { readonly input: Series; readonly output: Series }
  /** By `error.type`; empty text without an error. */
  readonly durations: Map<string, Series>
  readonly firstChunks: Series
}

/** One histogram since the start. */
class Series {
  readonly boundaries: readonly number[]
  readonly counts: number[]
  count = 0
  sum = 0
  min = Number.POSITIVE_INFINITY
  max = Number.NEGATIVE_INFINITY

  constructor(boundaries: readonly number[]) {
    this.boundaries = boundaries
    this.counts = new Array<number>(boundaries.length + 1).fill(0)
  }

  add(value: number): void {
    const { boundaries, counts } = this
    let at = 0
    while (at < boundaries.length && value > (boundaries[at] ?? 0)) at++
    counts[at] = (counts[at] ?? 0) + 1
    this.count++
    this.sum += value
    if (value < this.min) this.min = value
    if (value > this.max) this.max = value
  }
}

interface Metric {
  readonly name: string
  readonly unit: string
  readonly description: string
}

function metricData(
  { name, unit, description }: Metric,
  [startMs, endMs]: readonly [number, number],
  points: readonly { readonly series: Series; readonly attributes: Attributes }[],
): HistogramMetricData {
  return {
    descriptor: { name, unit, description, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints: points
      .filter(({ series }) => series.count > 0)
      .map(({ series: { boundaries, counts, count, sum, min, max }, attributes }) => ({
        startTime: hrTime(startMs),
        endTime: hrTime(endMs),
        attributes,
        value: { buckets: { boundaries: [...boundaries], counts: [...counts] }, count, sum, min, max },
      })),
  }
}
