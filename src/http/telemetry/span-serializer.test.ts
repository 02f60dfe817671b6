import { SpanKind } from '@opentelemetry/api'
import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { expect, test } from 'vitest'
import { Span } from './span.ts'
import { SpanSerializer } from './span-serializer.ts'

const origin = {
  resource: resourceFromAttributes({ 'service.name': 'switchyard', 'process.pid': 7 }),
  instrumentationScope: { name: 'switchyard', version: '0.2.0' },
}
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = { traceId, spanId: '00f067aa0ba902b7', traceFlags: 1 }

function span(attributes: Span['attributes'], { isRemote = false, isRoot = false, error = '' } = {}): Span {
  const made = new Span(origin, {
    name: 'POST /v1/chat/completions',
    kind: isRemote ? SpanKind.SERVER : SpanKind.CLIENT,
    traceId,
    spanId: 'a3ce929d0e0e4736',
    parent: isRoot ? undefined : { ...parent, ...(isRemote && { isRemote }) },
    startedAtMs: 1_764_460_800_123.25,
  })
  Object.assign(made.attributes, attributes)
  if (error !== '') made.fail(error)
  made.end(1_764_460_801_000)
  return made
}

const batches = {
  'no attributes': [span({})],
  'texts of each length': Array.from({ length: 300 }, (_, length) => span({ text: 'x'.repeat(length) })),
  'texts of each alphabet': [
    span({ naïve: 'é', short: '网关', emoji: '🚂', broken: '\ud800', long: 'é网🚂'.repeat(99) }),
  ],
  'numbers of each size': [
    span({ zero: 0, one: 1, byte: 127, more: 128, large: 2 ** 31, larger: 2 ** 53, largest: 2 ** 62, half: 0.5 }),
    span({ minus: -1, low: -(2 ** 40), lowest: -(2 ** 62), beyond: 2 ** 64, huge: 1e300, nan: Number.NaN }),
  ],
  'other values': [span({ yes: true, no: false, list: ['stop', 'length'], none: [] })],
  'parents and errors': [span({}, { isRemote: true }), span({}, { isRoot: true, error: 'server_error' })],
  'texts larger than the memory at first': [
    span({ text: 'x'.repeat(1_000_000) }),
    span({ text: '网'.repeat(500_000) }),
  ],
}

test.each(Object.entries(batches))('%s are written as by the SDK, byte for byte', (_, spans) => {
  const serializer = new SpanSerializer()
  const expected = Buffer.from(ProtobufTraceSerializer.serializeRequest(spans) ?? [])
  for (let time = 1; time <= 2; time++) {
    expect(Buffer.from(serializer.serialize(spans) ?? []).equals(expected)).toBe(true)
  }
})
