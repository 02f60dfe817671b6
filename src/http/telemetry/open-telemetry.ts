import { type DiagLogger, DiagLogLevel, diag } from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { OTLPExporterBase } from '@opentelemetry/otlp-exporter-base'
import { convertLegacyHttpOptions, createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http'
import { ProtobufTraceSerializer, TraceExporterMetricsHelper } from '@opentelemetry/otlp-transformer'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace'
import { ContentBudget } from './content-budget.ts'
import { GenAiMetrics } from './gen-ai-metrics.ts'
import { RequestTraces } from './request-traces.ts'
import { Sampling } from './sampling.ts'
import { contentLength } from './span-attributes.ts'
import { SpanSerializer } from './span-serializer.ts'
import type { Telemetry, TelemetryDeps } from './telemetry.ts'

// The only file that loads the SDK of OpenTelemetry. Nothing is registered globally except the log of the SDK, so that
// two gateways in one process stay apart.

/** Spans that wait for the collector; further ones are dropped. A span has about 2 kB. */
const QUEUE_MAX = 2_048
const BATCH_MAX = 512
const SPAN_DELAY_MS = 2_000
/** How long one export may take, with its retries. */
const EXPORT_MS_MAX = 10_000
/** How long a stopping gateway waits for the last export. */
const CLOSE_MS = 2_000

/** Starts the exports to a collector by OTLP over HTTP. */
export function openTelemetry(
  deps: TelemetryDeps & { readonly endpoint: string; readonly instanceId: string },
): Telemetry {
  const { settings, version, samplingKey, clock, random, endpoint, instanceId } = deps
  const note = logAtMostEveryMinute(deps)
  const ignore = () => {}
  // What the SDK itself complains about, such as spans that it dropped because too many wait.
  const logger: DiagLogger = { error: note, warn: note, info: ignore, debug: ignore, verbose: ignore }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  // OTEL_RESOURCE_ATTRIBUTES can name the environment, and whatever else a backend wants.
  const resource = defaultResource()
    .merge(
      resourceFromAttributes({
        'service.name': settings.serviceName,
        'service.version': version,
        'service.instance.id': instanceId,
      }),
    )
    .merge(detectResources({ detectors: [envDetector] }))
  const exporterAt = (path: string) => ({
    url: `${endpoint}${path}`,
    headers: { ...settings.headers },
    timeoutMillis: EXPORT_MS_MAX,
  })
  const budget = new ContentBudget()
  const spans = settings.traces
    ? new BatchSpanProcessor({
        exporter: withFailureNotes(traceExporter(exporterAt('/v1/traces')), note, batch =>
          budget.release(
            batch.reduce((sum, span) => sum + contentLength(span), 0),
            batch.length < BATCH_MAX,
          ),
        ),
        maxQueueSize: QUEUE_MAX,
        maxExportBatchSize: BATCH_MAX,
        scheduledDelayMillis: deps.spanDelayMs ?? SPAN_DELAY_MS,
        exportTimeoutMillis: 2 * EXPORT_MS_MAX,
      })
    : null
  const metrics = settings.metrics ? new GenAiMetrics(clock, version) : null
  const metering = new MeterProvider({
    resource,
    readers:
      metrics === null
        ? []
        : [
            new PeriodicExportingMetricReader({
              exporter: withFailureNotes(new OTLPMetricExporter(exporterAt('/v1/metrics')), note),
              exportIntervalMillis: settings.metricsIntervalMs,
              exportTimeoutMillis: Math.min(EXPORT_MS_MAX, settings.metricsIntervalMs),
              metricProducers: [metrics],
            }),
          ],
  })
  return new RequestTraces({
    origin: { resource, instrumentationScope: { name: 'switchyard', version } },
    sampling: new Sampling({
      ratio: settings.traces ? settings.sampleRatio : 0,
      followsParent: settings.followsParent,
      key: samplingKey,
      random,
    }),
    onEnd: span => spans?.onEnd(span),
    metrics,
    budget,
    clock,
    async close() {
      const limit = Promise.withResolvers<void>()
      const timer = setTimeout(limit.resolve, deps.closeMs ?? CLOSE_MS)
      await Promise.race([Promise.allSettled([spans?.shutdown(), metering.shutdown()]), limit.promise])
      clearTimeout(timer)
      diag.disable()
    },
  })
}

/** As the SDK's exporter of traces, with a serializer of ours. */
function traceExporter(config: Parameters<typeof convertLegacyHttpOptions>[0]): OTLPExporterBase<ReadableSpan[]> {
  const options = convertLegacyHttpOptions(config, 'TRACES', 'v1/traces', { 'Content-Type': 'application/x-protobuf' })
  const serializer = new SpanSerializer()
  const { deserializeResponse } = ProtobufTraceSerializer
  const delegate = createOtlpHttpExportDelegate(
    options,
    { serializeRequest: (spans: ReadableSpan[]) => serializer.serialize(spans), deserializeResponse },
    'otlp_http_span_exporter',
    TraceExporterMetricsHelper,
    undefined,
  )
  return new OTLPExporterBase(delegate)
}

const LOG_INTERVAL_MS = 60_000
const REASON_LENGTH_MAX = 300

/** Returns a function that writes the first error of a minute to the log, with how many there were since the last line. */
function logAtMostEveryMinute({ log, clock }: Pick<TelemetryDeps, 'log' | 'clock'>): (reason: string) => void {
  let loggedAtMs = -Infinity
  let unlogged = 0
  return reason => {
    unlogged++
    const nowMs = clock.monotonicMs()
    if (nowMs < loggedAtMs + LOG_INTERVAL_MS) return
    loggedAtMs = nowMs
    const fields = { reason: reason.slice(0, REASON_LENGTH_MAX), errors: unlogged }
    log.warn(fields, 'traces or metrics cannot be exported; requests go on without them')
    unlogged = 0
  }
}

interface Exporter<Data, Result> {
  export(data: Data, done: (result: Result) => void): void
}

/**
 * Notes the failures of an exporter, and hides them from the SDK, which would print each with its stack. An exporter
 * that fails has tried again already.
 */
function withFailureNotes<Data, Result extends { code: number; error?: Error }, Each extends Exporter<Data, Result>>(
  exporter: Each & Exporter<Data, Result>,
  note: (reason: string) => void,
  onDone: (data: Data) => void = () => {},
): Each {
  const { SUCCESS } = exportCodes
  const original = exporter.export.bind(exporter)
  exporter.export = (data, done) =>
    original(data, result => {
      onDone(data)
      if (result.code !== SUCCESS) note(result.error?.message ?? 'the export failed')
      done({ ...result, code: SUCCESS, error: undefined } as Result)
    })
  return exporter
}

/** As `ExportResultCode` of @opentelemetry/core. */
const exportCodes = { SUCCESS: 0 } as const
