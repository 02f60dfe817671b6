import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createRecordBatch, headerBytes, holdsRecord, payloadBytesMax, scanRecords } from './record.ts'

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 })
const bytes = fc.uint8Array({ minLength: 1, maxLength: 40 })
const payloads = fc.array(fc.oneof(text, bytes), { maxLength: 8 })

function frame(records: readonly (string | Uint8Array)[]): Buffer {
  const batch = createRecordBatch()
  for (const record of records) batch.add(record)
  return Buffer.from(batch.take())
}

describe('a batch of records', () => {
  it('reads back as written, text as UTF-8', () => {
    fc.assert(
      fc.property(payloads, records => {
        const framed = frame(records)
        const expected = records.map(record => Buffer.from(record as string))
        expect(scanRecords(framed)).toEqual({ payloads: expected, end: framed.length })
      }),
    )
  })

  it('keeps its records when it grows', () => {
    const records = Array.from({ length: 20 }, (_, index) => String(index).repeat(1 + index * 3_000))
    expect(scanRecords(frame(records)).payloads.map(String)).toEqual(records)
  })

  it('is empty after take(), and cut() drops the records behind a length', () => {
    const batch = createRecordBatch()
    batch.add('first')
    const { length } = batch
    batch.add('second')
    batch.cut(length)
    expect(scanRecords(batch.take()).payloads.map(String)).toEqual(['first'])
    expect(batch.length).toBe(0)
    batch.add('third')
    expect(scanRecords(batch.take()).payloads.map(String)).toEqual(['third'])
  })

  it('accepts payloads up to the longest, counted in bytes, and does not change when it refuses one', () => {
    const batch = createRecordBatch()
    batch.add('a'.repeat(payloadBytesMax))
    const { length } = batch
    expect(length).toBe(headerBytes + payloadBytesMax)
    for (const wrong of ['', Buffer.alloc(0), 'a'.repeat(payloadBytesMax + 1), 'é'.repeat(payloadBytesMax / 2 + 1)])
      expect(() => batch.add(wrong)).toThrow(RangeError)
    expect(batch.length).toBe(length)
    expect(scanRecords(batch.take()).payloads).toHaveLength(1)
  })
})

describe('reading records', () => {
  it('ends before the first missing byte', () => {
    fc.assert(
      fc.property(payloads, records => {
        const framed = frame(records)
        const ends = records.map((_, index) => frame(records.slice(0, index + 1)).length)
        for (let length = 0; length <= framed.length; length++) {
          const whole = ends.filter(end => end <= length)
          const scan = scanRecords(framed.subarray(0, length))
          expect(scan.end).toBe(whole.at(-1) ?? 0)
          expect(scan.payloads).toHaveLength(whole.length)
          // Nothing follows a tear, so it never counts as damage.
          expect(holdsRecord(framed.subarray(scan.end, length))).toBe(false)
        }
      }),
      { numRuns: 30 },
    )
  })

  it('returns no record with a flipped bit, and every record before it', () => {
    fc.assert(
      fc.property(fc.array(bytes, { minLength: 1, maxLength: 5 }), fc.nat(), (records, place) => {
        const framed = frame(records)
        const bit = place % (framed.length * 8)
        framed[bit >> 3]! ^= 1 << (bit & 7)
        const ends = records.map((_, index) => frame(records.slice(0, index + 1)).length)
        const intact = ends.filter(end => end * 8 <= bit).length
        expect(scanRecords(framed).payloads).toEqual(records.slice(0, intact).map(record => Buffer.from(record)))
      }),
      { numRuns: 2_000 },
    )
  })

  it('reads no record from zeros, which a file system may leave after a loss of power', () => {
    expect(scanRecords(Buffer.alloc(4_096))).toEqual({ payloads: [], end: 0 })
    expect(holdsRecord(Buffer.alloc(4_096))).toBe(false)
  })

  it('reads no record from the inside of another one', () => {
    const inner = frame(['charge me twice'])
    const framed = frame([inner, 'last'])
    expect(scanRecords(framed).payloads.map(String)).toEqual([String(inner), 'last'])
    framed[0]! ^= 1
    expect(scanRecords(framed)).toEqual({ payloads: [], end: 0 })
  })
})
