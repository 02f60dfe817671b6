import type { AnyValue, Attributes, HrTime } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { ProtobufWriter } from './protobuf-writer.ts'

// The numbers of fields are those of https://github.com/open-telemetry/opentelemetry-proto: trace_service.proto,
// trace.proto, common.proto and resource.proto.

/** A full batch has about 500 kB. */
const BATCH_BYTES = 512 * 1024
const KEY_BYTES = 64

/**
 * Writes spans as OTLP, each byte as the SDK does. The SDK goes through them twice, first for the size, and writes the
 * name of each attribute letter by letter, which takes more time than all else that a span costs.
 */
export class SpanSerializer {
  readonly #writer = new ProtobufWriter(BATCH_BYTES)
  /** The names of attributes as they are written. */
  readonly #keys = new Map<string, Uint8Array>()

  /** @param spans all of the same origin */
  serialize(spans: readonly ReadableSpan[]): Uint8Array | undefined {
    const [first] = spans
    if (first === undefined) return undefined
    const { resource, instrumentationScope } = first
    const writer = this.#writer
    const resourceSpans = writer.open(1)
    const resourceStart = writer.open(1)
    this.#attributes(1, resource.attributes)
    writer.integer(2, 0)
    writer.close(resourceStart)
    const scopeSpans = writer.open(2)
    const scope = writer.open(1)
    writer.text(1, instrumentationScope.name)
    if (instrumentationScope.version) writer.text(2, instrumentationScope.version)
    writer.close(scope)
    for (const span of spans) this.#span(span)
    writer.close(scopeSpans)
    writer.close(resourceSpans)
    return writer.take()
  }

  #span(span: ReadableSpan): void {
    const { parentSpanContext, status } = span
    const { traceId, spanId, traceFlags } = span.spanContext()
    const writer = this.#writer
    const start = writer.open(2)
    writer.hex(1, traceId)
    writer.hex(2, spanId)
    if (parentSpanContext !== undefined) writer.hex(4, parentSpanContext.spanId)
    writer.text(5, span.name)
    // OTLP counts from one: zero is an unspecified kind.
    writer.integer(6, span.kind + 1)
    writer.fixed64(7, nanos(span.startTime))
    writer.fixed64(8, nanos(span.endTime))
    this.#attributes(9, span.attributes)
    writer.integer(10, span.droppedAttributesCount)
    writer.integer(12, span.droppedEventsCount)
    writer.integer(14, span.droppedLinksCount)
    const statusStart = writer.open(15)
    if (status.message) writer.text(2, status.message)
    writer.integer(3, status.code)
    writer.close(statusStart)
    writer.fixed32(16, traceFlags | PARENT_IS_KNOWN | (parentSpanContext?.isRemote ? PARENT_IS_REMOTE : 0))
    writer.close(start)
  }

  #attributes(field: number, attributes: Attributes): void {
    const writer = this.#writer
    for (const key in attributes) {
      const pair = writer.open(field)
      writer.fields(this.#key(key))
      const value = writer.open(2)
      this.#value(attributes[key])
      writer.close(value)
      writer.close(pair)
    }
  }

  #key(key: string): Uint8Array {
    let written = this.#keys.get(key)
    if (written === undefined) {
      const writer = new ProtobufWriter(KEY_BYTES)
      writer.text(1, key)
      written = writer.take()
      this.#keys.set(key, written)
    }
    return written
  }

  #value(value: AnyValue): void {
    const writer = this.#writer
    if (typeof value === 'string') writer.text(1, value)
    else if (typeof value === 'boolean') writer.integer(2, value ? 1 : 0)
    else if (typeof value === 'number') {
      if (Number.isInteger(value) && Math.abs(value) < 2 ** 63) writer.integer(3, value)
      else writer.double(4, value)
    } else if (Array.isArray(value)) {
      const list = writer.open(5)
      for (const each of value) {
        const start = writer.open(1)
        this.#value(each)
        writer.close(start)
      }
      writer.close(list)
    }
  }
}

/** Flags of a span: whether its parent is of another process, and that this is known. */
const PARENT_IS_KNOWN = 0x100
const PARENT_IS_REMOTE = 0x200

function nanos([seconds, rest]: HrTime): bigint {
  return BigInt(seconds) * 1_000_000_000n + BigInt(rest)
}
