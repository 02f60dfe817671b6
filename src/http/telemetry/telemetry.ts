import type { AttemptTraces } from '../../base/domain/attempt-traces.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import type { RequestContent } from '../../base/domain/request-content.ts'
import type { TelemetrySettings } from '../../base/domain/telemetry-settings.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import type { EndedRequest } from '../access-log.ts'

/** Traces and metrics of generation requests, for a collector of OpenTelemetry. No method throws or waits, except `close`. */
export interface Telemetry extends AttemptTraces {
  /**
   * Call it when the key of the caller is accepted, before anything else, and `ended` last. Returns the id of the trace of a request
   * that is recorded, else null.
   *
   * @param rawHeaders names and values in turn
   * @param startedAtMs epoch
   */
  begun(requestId: string, path: string, rawHeaders: readonly string[], startedAtMs: number): string | null
  /** Notes what a request asks for. */
  asked(requestId: string, job: ChatJob): void
  settled(settlement: Settlement, receipt: Receipt, job: ChatJob): void
  /** What was recorded of a request goes into the span of its answer, when it is redacted. Call it before `ended`. */
  readonly awaitContent: (requestId: string, content: Promise<RequestContent | null>) => void
  ended(request: EndedRequest): void
  /** Returns the id of the trace of a running request that is recorded, else null. */
  readonly traceIdOf: (requestId: string) => string | null
  /** Exports what waits, for at most a few seconds, and stops. */
  close(): Promise<void>
}

export interface TelemetryDeps {
  readonly settings: TelemetrySettings
  readonly version: string
  /** Makes the choice of traces unpredictable: see Sampling. */
  readonly samplingKey: Buffer
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Pick<Log, 'warn'>
  /** How long spans wait for others, ms. Default: 2000. */
  readonly spanDelayMs?: number | undefined
  /** How long `close` waits, ms. Default: 2000. */
  readonly closeMs?: number | undefined
}
