import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createRecordBatch, headerBytes, payloadBytesMax, scanRecords } from './record.ts'

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }).map(each => each.replaceAll('\0', '?'))
const bytes = fc.uint8Array({ min: 1, minLength: 1, maxLength: 40 })
const payloads = fc.array(fc.oneof(text, bytes), { maxLength: 8 })

function frame(records: readonly (string | Uint8Array)[]): Buffer {
  const batch = createRecordBatch()
  for (const record of records) batch.add(record)
  return Buffer.from(batch.take())
}

const payloadsIn = (bytes: Buffer) => scanRecords(bytes).records.map(({ payload }) => payload)

describe('a batch of records', () => {
  it('reads back as written, text as UTF-8', () => {
    fc.assert(
      fc.property(payloads, records => {
        const framed = frame(records)
        const expected = records.map(record => Buffer.from(record as string))
        expect(payloadsIn(framed)).toEqual(expected)
        expect(scanRecords(framed)).toMatchObject({ damages: [], end: framed.length, tail: 'none' })
      }),
    )
  })

  it('keeps its records when it grows', () => {
    const records = Array.from({ length: 20 }, (_, index) => String(index).repeat(1 + index * 3_000))
    expect(payloadsIn(frame(records)).map(String)).toEqual(records)
  })

  it('is empty after take(), and cut() drops the records behind a length', () => {
    const batch = createRecordBatch()
    batch.add('first')
    const { length } = batch
    batch.add('second')
    batch.cut(length)
    expect(payloadsIn(batch.take()).map(String)).toEqual(['first'])
    expect(batch.length).toBe(0)
    batch.add('third')
    expect(payloadsIn(batch.take()).map(String)).toEqual(['third'])
  })

  it('accepts payloads up to the longest, counted in bytes, and does not change when it refuses one', () => {
    const batch = createRecordBatch()
    batch.add('a'.repeat(payloadBytesMax))
    const { length } = batch
    expect(length).toBe(headerBytes + payloadBytesMax)
    for (const wrong of ['', Buffer.alloc(0), 'a'.repeat(payloadBytesMax + 1), 'é'.repeat(payloadBytesMax / 2 + 1)])
      expect(() => batch.add(wrong)).toThrow(RangeError)
    expect(batch.length).toBe(length)
    expect(payloadsIn(batch.take())).toHaveLength(1)
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
          const end = whole.at(-1) ?? 0
          expect(scan).toMatchObject({ damages: [], end, tail: end === length ? 'none' : 'torn' })
          expect(scan.records).toHaveLength(whole.length)
        }
      }),
      { numRuns: 30 },
    )
  })

  it('returns all records except the one with a flipped bit, and says where that one was', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(text, bytes), { minLength: 1, maxLength: 5 }), fc.nat(), (records, place) => {
        const framed = frame(records)
        const bit = place % (framed.length * 8)
        framed[bit >> 3]! ^= 1 << (bit & 7)
        const ends = records.map((_, index) => frame(records.slice(0, index + 1)).length)
        const broken = ends.findIndex(end => end * 8 > bit)
        const offset = ends[broken - 1] ?? 0
        expect(payloadsIn(framed)).toEqual(records.toSpliced(broken, 1).map(record => Buffer.from(record as string)))
        const scan = scanRecords(framed)
        // A last record with a damaged length may look like one that was not written whole.
        if (broken < records.length - 1)
          expect(scan).toMatchObject({ damages: [{ offset, bytes: ends[broken]! - offset }], tail: 'none' })
        else expect(scan).toMatchObject({ damages: [], end: offset, tail: expect.stringMatching(/^(torn|damaged)$/) })
      }),
      { numRuns: 2_000 },
    )
  })

  it('calls a last record with a wrong checksum damaged, since all of its bytes are there', () => {
    const framed = frame(['first', 'last'])
    framed[framed.length - 1]! ^= 1
    expect(scanRecords(framed)).toMatchObject({ end: headerBytes + 5, tail: 'damaged' })
  })

  it('reads no record from zeros, which a file system may leave after a loss of power', () => {
    expect(scanRecords(Buffer.alloc(4_096))).toEqual({ records: [], damages: [], end: 0, tail: 'torn' })
    const framed = Buffer.concat([frame(['before']), Buffer.alloc(4_096), frame(['after'])])
    expect(payloadsIn(framed).map(String)).toEqual(['before', 'after'])
  })

  // Otherwise a client could hide a charge for another customer in a text. It would count when that record is damaged.
  it('reads no record from the inside of another one, because no payload has a byte 0', () => {
    const inner = frame(['charge me twice'])
    const batch = createRecordBatch()
    expect(() => batch.add(inner)).toThrow(RangeError)
    expect(() => batch.add('a\0b')).toThrow(RangeError)
    expect(batch.length).toBe(0)
    // The longest record, and one with a length of a single byte.
    for (const length of [1, 255, payloadBytesMax]) expect(frame(['x'.repeat(length)]).readUInt8(3)).toBe(0)
  })

  it('finds the next record behind 4 MiB of random bytes without reading them over and over', () => {
    const noise = Buffer.from(
      fc.sample(fc.uint8Array({ minLength: 4_096, maxLength: 4_096 }), { numRuns: 1, seed: 1 })[0]!,
    )
    const framed = Buffer.concat([...Array.from({ length: 1_024 }, () => noise), frame(['after'])])
    expect(payloadsIn(framed).map(String)).toEqual(['after'])
  })
})
