import type * as z from 'zod'
import type { TelemetrySettings } from '../../base/domain/telemetry-settings.ts'
import { environmentSchema, type FileSettings, type Sampler } from './schema.ts'
import { type Environment, isSet } from './secret-sources.ts'

/** The variables of OpenTelemetry override the file. */
export function telemetrySettings(
  environment: z.output<typeof environmentSchema>,
  { telemetry }: FileSettings,
  ignored: readonly string[],
): TelemetrySettings {
  const isDisabled = environment.OTEL_SDK_DISABLED === 'true'
  const sampler = environment.OTEL_TRACES_SAMPLER
  return {
    endpoint: isDisabled ? null : (environment.OTEL_EXPORTER_OTLP_ENDPOINT ?? telemetry.endpoint ?? null),
    headers: environment.OTEL_EXPORTER_OTLP_HEADERS ?? telemetry.headers ?? {},
    serviceName: environment.OTEL_SERVICE_NAME ?? telemetry.service_name,
    traces: telemetry.traces,
    metrics: telemetry.metrics,
    ...(sampler === undefined
      ? { sampleRatio: telemetry.sample_percent / 10_000, followsParent: telemetry.follow_parent }
      : samplingBy[sampler](environment.OTEL_TRACES_SAMPLER_ARG ?? 1)),
    metricsIntervalMs: telemetry.metrics_seconds * 1_000,
    ignored,
  }
}

type Sampling = Pick<TelemetrySettings, 'sampleRatio' | 'followsParent'>

/** @param ratio OTEL_TRACES_SAMPLER_ARG */
const samplingBy: Readonly<Record<Sampler, (ratio: number) => Sampling>> = {
  always_on: () => ({ sampleRatio: 1, followsParent: false }),
  always_off: () => ({ sampleRatio: 0, followsParent: false }),
  traceidratio: ratio => ({ sampleRatio: ratio, followsParent: false }),
  parentbased_always_on: () => ({ sampleRatio: 1, followsParent: true }),
  parentbased_always_off: () => ({ sampleRatio: 0, followsParent: true }),
  parentbased_traceidratio: ratio => ({ sampleRatio: ratio, followsParent: true }),
}

/**
 * Returns the variables with a value that OpenTelemetry knows and the gateway does not, such as the sampler `xray`. Clusters set
 * them for all of their programs, so they must not stop this one.
 */
export function foreignVariables(env: Environment): readonly string[] {
  return maybeForeign.filter(name => isSet(env, name) && !environmentSchema.shape[name].safeParse(env[name]).success)
}

const maybeForeign = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_TRACES_SAMPLER', 'OTEL_TRACES_SAMPLER_ARG'] as const
