/** Where and how traces and metrics are exported. */
export interface TelemetrySettings {
  /** Where the collector listens, without `/v1/traces`. Null: telemetry is off. */
  readonly endpoint: string | null
  /** Sent with each export. They may be keys, so nothing shows them. */
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
  readonly traces: boolean
  readonly metrics: boolean
  /** The part of the requests that has a trace, 0 to 1. */
  readonly sampleRatio: number
  /** Whether requests whose client does not record their trace have none here either. */
  readonly followsParent: boolean
  readonly metricsIntervalMs: number
  /** Variables of the environment with values for other programs, which count as not set here. */
  readonly ignored: readonly string[]
}
