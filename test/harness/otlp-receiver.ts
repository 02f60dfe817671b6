import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A collector that reads OTLP over HTTP in protobuf, as https://github.com/open-telemetry/opentelemetry-proto v1 has it. */
export interface OtlpReceiver {
  readonly url: string
  /** In the order of arrival. */
  readonly spans: readonly ReceivedSpan[]
  /** The data points of the last export. */
  readonly points: readonly ReceivedPoint[]
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  /** Default: 200. */
  respondWith(behaviour: (response: ServerResponse) => void): void
  close(): Promise<void>
}

export type AttributeValue = string | number | boolean | readonly AttributeValue[]
export type ReceivedAttributes = Readonly<Record<string, AttributeValue>>

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty: none. */
  readonly parentSpanId: string
  readonly name: string
  readonly kind: 'server' | 'client' | 'other'
  readonly attributes: ReceivedAttributes
  readonly resource: ReceivedAttributes
  readonly isError: boolean
  readonly startNanos: bigint
  readonly endNanos: bigint
}

export interface ReceivedPoint {
  readonly metric: string
  readonly attributes: ReceivedAttributes
  readonly count: bigint
  readonly sum: number
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const requests: { path: string; headers: IncomingHttpHeaders }[] = []
  const points: ReceivedPoint[] = []
  let behaviour = (response: ServerResponse): void => void response.writeHead(200).end()
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const path = request.url ?? ''
    requests.push({ path, headers: request.headers })
    if (path.endsWith('/v1/traces')) spans.push(...readSpans(body))
    if (path.endsWith('/v1/metrics')) points.splice(0, points.length, ...readPoints(body))
    behaviour(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    points,
    respondWith(other) {
      behaviour = other
    },
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function readSpans(body: Buffer): ReceivedSpan[] {
  return messages(body, 1).flatMap(resourceSpans => {
    const resource = attributesOf(messages(resourceSpans, 1)[0], 1)
    return messages(resourceSpans, 2)
      .flatMap(scopeSpans => messages(scopeSpans, 2))
      .map(span => {
        const kind = Number(numberOf(span, 6))
        const status = messages(span, 15)[0]
        return {
          traceId: bytesOf(span, 1).toString('hex'),
          spanId: bytesOf(span, 2).toString('hex'),
          parentSpanId: bytesOf(span, 4).toString('hex'),
          name: bytesOf(span, 5).toString(),
          kind: kind === 2 ? 'server' : kind === 3 ? 'client' : 'other',
          attributes: attributesOf(span, 9),
          resource,
          isError: status !== undefined && numberOf(status, 3) === 2n,
          startNanos: numberOf(span, 7),
          endNanos: numberOf(span, 8),
        }
      })
  })
}

function readPoints(body: Buffer): ReceivedPoint[] {
  return messages(body, 1)
    .flatMap(resourceMetrics => messages(resourceMetrics, 2))
    .flatMap(scopeMetrics => messages(scopeMetrics, 2))
    .flatMap(metric => {
      const name = bytesOf(metric, 1).toString()
      return messages(metric, 9)
        .flatMap(histogram => messages(histogram, 1))
        .map(point => ({
          metric: name,
          attributes: attributesOf(point, 9),
          count: numberOf(point, 4),
          sum: doubleOf(numberOf(point, 5)),
        }))
    })
}

function attributesOf(message: Buffer | undefined, field: number): ReceivedAttributes {
  if (message === undefined) return {}
  return Object.fromEntries(
    messages(message, field).map(pair => [bytesOf(pair, 1).toString(), readValue(messages(pair, 2)[0])]),
  )
}

function readValue(value: Buffer | undefined): AttributeValue {
  const [found] = value === undefined ? [] : fieldsOf(value)
  if (found === undefined) return ''
  switch (found.field) {
    case 1:
      return (found.value as Buffer).toString()
    case 2:
      return found.value === 1n
    case 3:
      return Number(found.value)
    case 4:
      return doubleOf(found.value as bigint)
    case 5:
      return messages(found.value as Buffer, 1).map(readValue)
    default:
      throw new Error(`a value of the field ${found.field} is not read here`)
  }
}

interface Field {
  readonly field: number
  readonly value: Buffer | bigint
}

/** Reads the wire format of protobuf: https://protobuf.dev/programming-guides/encoding/ */
function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = []
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = message.readUInt8(at++)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  while (at < message.length) {
    const tag = Number(varint())
    const field = tag >> 3
    if ((tag & 7) === 0) fields.push({ field, value: varint() })
    else if ((tag & 7) === 1) {
      fields.push({ field, value: message.readBigUInt64LE(at) })
      at += 8
    } else if ((tag & 7) === 2) {
      const length = Number(varint())
      fields.push({ field, value: message.subarray(at, at + length) })
      at += length
    } else {
      fields.push({ field, value: BigInt(message.readUInt32LE(at)) })
      at += 4
    }
  }
  return fields
}

const messages = (message: Buffer, field: number): Buffer[] =>
  fieldsOf(message).flatMap(each => (each.field === field && Buffer.isBuffer(each.value) ? [each.value] : []))

const bytesOf = (message: Buffer, field: number): Buffer => messages(message, field)[0] ?? Buffer.alloc(0)

function numberOf(message: Buffer, field: number): bigint {
  const found = fieldsOf(message).find(each => each.field === field)?.value
  return typeof found === 'bigint' ? found : 0n
}

function doubleOf(bits: bigint): number {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(bits)
  return bytes.readDoubleLE()
}
