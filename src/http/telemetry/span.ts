import {
  type Attributes,
  type HrTime,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'

/** What all spans of a gateway say of their origin. */
export type SpanOrigin = Pick<ReadableSpan, 'resource' | 'instrumentationScope'>

export interface SpanStart {
  readonly name: string
  readonly kind: SpanKind
  readonly traceId: string
  readonly spanId: string
  /** Undefined: the span begins its trace. */
  readonly parent: SpanContext | undefined
  readonly startedAtMs: number
}

/**
 * A span as the SDK's exporter reads it. The caller writes its attributes directly: the SDK's own span checks and copies
 * each one, and makes a context for each parent.
 */
export class Span implements ReadableSpan {
  readonly #origin: SpanOrigin
  readonly #context: SpanContext
  readonly name: string
  readonly kind: SpanKind
  readonly parentSpanContext?: SpanContext
  readonly startTime: HrTime
  readonly attributes: Attributes = {}
  endTime: HrTime
  status: ReadableSpan['status'] = noStatus

  constructor(origin: SpanOrigin, { name, kind, traceId, spanId, parent, startedAtMs }: SpanStart) {
    this.#origin = origin
    this.#context = { traceId, spanId, traceFlags: TraceFlags.SAMPLED }
    this.name = name
    this.kind = kind
    if (parent !== undefined) this.parentSpanContext = parent
    this.startTime = hrTime(startedAtMs)
    this.endTime = this.startTime
  }

  end(endedAtMs: number): void {
    const endTime = hrTime(endedAtMs)
    // The wall clock may have been set back.
    if (millis(endTime) > millis(this.startTime)) this.endTime = endTime
  }

  fail(message: string): void {
    this.status = { code: SpanStatusCode.ERROR, message }
  }

  spanContext(): SpanContext {
    return this.#context
  }

  get resource(): ReadableSpan['resource'] {
    return this.#origin.resource
  }

  get instrumentationScope(): ReadableSpan['instrumentationScope'] {
    return this.#origin.instrumentationScope
  }

  get duration(): HrTime {
    return hrTime(millis(this.endTime) - millis(this.startTime))
  }

  get ended(): boolean {
    return true
  }

  get links(): never[] {
    return nothing
  }

  get events(): never[] {
    return nothing
  }

  get droppedAttributesCount(): number {
    return 0
  }

  get droppedEventsCount(): number {
    return 0
  }

  get droppedLinksCount(): number {
    return 0
  }
}

const noStatus = { code: SpanStatusCode.UNSET }
const nothing: never[] = []

function millis([seconds, nanos]: HrTime): number {
  return seconds * 1_000 + nanos / 1e6
}

/** Returns the seconds and nanoseconds of a time since the epoch. */
export function hrTime(epochMs: number): HrTime {
  return [Math.floor(epochMs / 1_000), Math.round((epochMs % 1_000) * 1e6)]
}
