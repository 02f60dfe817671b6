import { crc32 } from 'node:zlib'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { uncounted } from '../../../base/runtime/counted-memory.ts'
import { EventStreamDecoder } from './event-stream-decoder.ts'

const codec = new EventStreamCodec(
  bytes => Buffer.from(bytes as Uint8Array).toString('utf8'),
  written => Buffer.from(written, 'utf8'),
)
const MAX = 100_000
const newDecoder = (eventBytesMax = MAX) => new EventStreamDecoder(eventBytesMax, uncounted)
const text = fc.string({ unit: 'grapheme', maxLength: 50 })

/** A frame with these headers, whatever they are, and right checksums. */
function rawFrame(headers: Buffer, payload = Buffer.from('{}'), lengths: { total?: number; headers?: number } = {}) {
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(lengths.total ?? 16 + headers.length + payload.length)
  prelude.writeUInt32BE(lengths.headers ?? headers.length, 4)
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  const checked = Buffer.concat([prelude, headers, payload])
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(checked))
  return Buffer.concat([checked, checksum])
}

function stringHeader(name: string, value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(Buffer.byteLength(value))
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([7]), length, Buffer.from(value)])
}

test('reads what the official codec writes, however the bytes are split', () => {
  const other = fc.constantFrom(
    { type: 'boolean', value: true },
    { type: 'byte', value: -3 },
    { type: 'short', value: 300 },
    { type: 'integer', value: 70_000 },
    { type: 'binary', value: Buffer.from('xyz') },
    { type: 'timestamp', value: new Date(0) },
    { type: 'uuid', value: '0198c0de-0000-7000-8000-00000000abcd' },
  )
  fc.assert(
    fc.property(
      fc.array(fc.record({ type: text, payload: text, other }), { maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (messages, sizes) => {
        const bytes = Buffer.concat(
          messages.map(message =>
            Buffer.from(
              codec.encode({
                headers: {
                  ':event-type': { type: 'string', value: message.type },
                  'x-other': message.other as never,
                  ':message-type': { type: 'string', value: 'event' },
                },
                body: Buffer.from(message.payload),
              }),
            ),
          ),
        )
        const decoder = newDecoder()
        const events = []
        for (let at = 0, index = 0; at < bytes.length; index++) {
          const size = sizes[index % sizes.length]!
          events.push(...decoder.push(Buffer.from(bytes.subarray(at, at + size))))
          at += size
        }
        expect([...events, ...decoder.end()]).toEqual(
          messages.map(({ type, payload }) => ({ event: type, data: payload })),
        )
        expect(decoder.lines).toBe(messages.length)
      },
    ),
  )
})

test('exceptions and errors are events with their names', () => {
  const exception = Buffer.concat([
    stringHeader(':message-type', 'exception'),
    stringHeader(':exception-type', 'throttlingException'),
  ])
  const error = Buffer.concat([
    stringHeader(':message-type', 'error'),
    stringHeader(':error-code', 'Internal'),
    stringHeader(':error-message', 'Sorry'),
  ])
  const bytes = Buffer.concat([
    rawFrame(exception, Buffer.from('{"message":"Slow"}')),
    rawFrame(error),
    rawFrame(Buffer.alloc(0)),
  ])
  expect(newDecoder().push(bytes)).toEqual([
    { event: 'error:throttlingException', data: '{"message":"Slow"}' },
    { event: 'error:Internal', data: '{"message":"Sorry"}' },
  ])
})

const event = Buffer.concat([stringHeader(':message-type', 'event'), stringHeader(':event-type', 'metadata')])
const flipped = (at: number) => {
  const bytes = rawFrame(event)
  bytes[at]! ^= 1
  return bytes
}

test.each<[what: string, bytes: Buffer, problem: string]>([
  ['a length changed on the way', flipped(2), 'damaged frame'],
  ['a damaged prelude', flipped(9), 'damaged frame'],
  ['a damaged header', flipped(20), 'damaged frame'],
  ['a damaged payload', flipped(rawFrame(event).length - 5), 'damaged frame'],
  ['a damaged checksum', flipped(rawFrame(event).length - 1), 'damaged frame'],
  ['a length of 4 GB', rawFrame(event, undefined, { total: 0xffff_ffff }), `above ${MAX} bytes`],
  ['a length of 0', rawFrame(event, undefined, { total: 0 }), 'impossible length'],
  ['headers longer than the frame', rawFrame(event, undefined, { headers: 4_000 }), 'impossible length'],
  ['giant headers', rawFrame(Buffer.alloc(5_000)), 'impossible length'],
  ['a header that ends outside of the headers', rawFrame(event.subarray(0, -3)), 'does not fit'],
  ['a name that ends outside of the headers', rawFrame(Buffer.from([200, 1, 2])), 'does not fit'],
  ['a header of an unknown type', rawFrame(Buffer.from([1, 97, 42, 0])), 'unknown type'],
  ['a page', Buffer.from('<html><body>Bad gateway</body></html>'), 'damaged frame'],
])('%s is a fault of the upstream', (_what, bytes, problem) => {
  expect(() => newDecoder().push(bytes)).toThrow(problem)
  const decoder = newDecoder()
  expect(() => {
    for (const byte of bytes) decoder.push(Buffer.from([byte]))
  }).toThrow(problem)
})

test('a frame that is too large is refused by its first bytes, before any of it is kept', () => {
  let taken = 0
  const account = {
    ...uncounted,
    take: (bytes: number) => {
      taken += bytes
      return true
    },
  }
  const decoder = new EventStreamDecoder(1_000, account)
  const bytes = rawFrame(event, Buffer.alloc(2_000))
  expect(() => decoder.push(bytes.subarray(0, 12))).toThrow('above 1000 bytes')
  expect(taken).toBe(0)
})
