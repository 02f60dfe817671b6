import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type JournalEntry,
  type JournalOptions,
  JournalUnavailable,
  type OpenedJournal,
  openJournal,
} from '../../src/money/ledger/journal/journal.ts'
import { headerBytes, scanRecords } from '../../src/money/ledger/journal/record.ts'
import { append } from './append.ts'
import { createMemoryDisk, type MemoryDisk } from './memory-disk.ts'

/** The turns of an event loop, ended one at a time. */
function createTurns() {
  let works: (() => void)[] = []
  return {
    soon: (work: () => void) => void works.push(work),
    next() {
      const now = works
      works = []
      for (const work of now) work()
    },
  }
}

type Written = { payload: string; entry: JournalEntry | undefined; failure: JournalUnavailable | undefined }

/** A journal with turns that the test ends. */
function open(disk: MemoryDisk, options: Partial<JournalOptions> = {}) {
  const turns = createTurns()
  const opened: OpenedJournal = openJournal({ disk, scheduler: turns, fsync: false, ...options })
  const { journal } = opened
  return {
    ...opened,
    turns,
    /** Writes the payloads in one turn and ends the turn. With fsync the outcomes come later. */
    write(...payloads: string[]): Written[] {
      const outcomes = payloads.map((payload): Written => ({ payload, entry: undefined, failure: undefined }))
      for (const outcome of outcomes)
        journal.write(outcome.payload, (failure, entry) => Object.assign(outcome, { failure, entry }))
      turns.next()
      return outcomes
    },
  }
}

const texts = ({ recovered }: Pick<OpenedJournal, 'recovered'>) => recovered.map(({ payload }) => String(payload))
const recover = (files: Iterable<readonly [string, Buffer]>) => texts(open(createMemoryDisk(files)))
const storedBytes = (disk: MemoryDisk) => disk.files.values().reduce((sum, bytes) => sum + bytes.length, 0)
const segments = (disk: MemoryDisk) => [...disk.files.keys()].filter(name => name.endsWith('.log')).sort()
const payloadsOf = (bytes: Buffer) => scanRecords(bytes).records.map(({ payload }) => String(payload))

const flipBit = (bytes: Buffer, bit: number) => bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)

const payload = fc.string({ unit: 'binary', minLength: 1, maxLength: 24 }).map(each => each.replaceAll('\0', '?'))
const turnsOfPayloads = fc.array(fc.array(payload, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 })

describe('writing', () => {
  it('writes all records of a turn at once and recovers them in order', async () => {
    const disk = createMemoryDisk()
    const { journal } = openJournal({ disk, scheduler: { soon: setImmediate }, fsync: false })
    const payloads = Array.from({ length: 128 }, (_, index) => `record ${index}`)
    const entries = await Promise.all(payloads.map(each => append(journal, each)))
    expect(disk.appends).toBe(1)
    expect(new Set(entries).size).toBe(128)
    expect(journal.entries).toBe(128)
    expect(journal.bytes).toBe(storedBytes(disk))
    expect(recover(disk.files)).toEqual(payloads)
  })

  it('stores bytes unchanged, and does not reference them afterwards', () => {
    const disk = createMemoryDisk()
    const { journal, turns } = open(disk)
    const bytes = Buffer.from([3, 255, 1])
    journal.write(bytes, () => {})
    bytes.fill(7)
    turns.next()
    expect(open(disk).recovered[0]?.payload).toEqual(Buffer.from([3, 255, 1]))
  })

  it('may be called again from a callback', () => {
    const disk = createMemoryDisk()
    const { journal, turns } = open(disk)
    journal.write('first', () => journal.write('second', () => {}))
    turns.next()
    turns.next()
    expect(recover(disk.files)).toEqual(['first', 'second'])
  })

  it('throws for an empty payload and goes on', async () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk)
    await expect(append(journal, '')).rejects.toThrow(RangeError)
    expect(write('a')[0]?.failure).toBeUndefined()
    expect(recover(disk.files)).toEqual(['a'])
  })
})

describe('recovering', () => {
  it('returns exactly the whole records before a tear at any byte of the last segment, and appends after them', () => {
    fc.assert(
      fc.property(turnsOfPayloads, turns => {
        const disk = createMemoryDisk()
        const { write } = open(disk, { segmentBytes: 100 })
        for (const each of turns) write(...each)
        const last = segments(disk).at(-1)!
        const whole = disk.files.get(last)!
        const older = turns.flat().slice(0, -payloadsOf(whole).length)
        for (let length = 0; length <= whole.length; length++) {
          const torn = createMemoryDisk([...disk.files, [last, whole.subarray(0, length)]])
          const expected = [...older, ...payloadsOf(whole.subarray(0, length))]
          const opened = open(torn)
          expect(texts(opened)).toEqual(expected)
          expect(opened.damages).toEqual([])
          expect(opened.tornBytes).toBe(length - scanRecords(whole.subarray(0, length)).end)
          expect(opened.journal.entries).toBe(expected.length)
          expect(opened.journal.bytes).toBe(storedBytes(torn))
          opened.write('behind the tear')
          expect(open(torn)).toMatchObject({ tornBytes: 0, damages: [] })
          expect(recover(torn.files)).toEqual([...expected, 'behind the tear'])
        }
      }),
      { numRuns: 25 },
    )
  })

  it('loses only the record with a flipped bit, at any place, and keeps its bytes when the rest is forgotten', () => {
    fc.assert(
      fc.property(turnsOfPayloads, fc.nat(), fc.nat(), (turns, whichSegment, whichBit) => {
        const disk = createMemoryDisk()
        const { write } = open(disk, { segmentBytes: 60 })
        for (const each of turns) write(...each)
        const names = segments(disk)
        const name = names[whichSegment % names.length]!
        const bytes = Buffer.from(disk.files.get(name)!)
        const bit = whichBit % (bytes.length * 8)
        const { records } = scanRecords(disk.files.get(name)!)
        const broken = records.findLastIndex(({ offset }) => offset * 8 <= bit)
        flipBit(bytes, bit)
        const damaged = createMemoryDisk([...disk.files, [name, bytes]])
        const expected = names.flatMap(each => {
          const texts = payloadsOf(disk.files.get(each)!)
          return each === name ? texts.toSpliced(broken, 1) : texts
        })
        const opened = open(damaged)
        expect(texts(opened)).toEqual(expected)
        // A crash finds the same again.
        expect(recover(damaged.files)).toEqual(expected)
        const { offset, payload } = records[broken]!
        const place = { offset, bytes: headerBytes + payload.length }
        const [damage] = opened.damages
        for (const { entry } of opened.recovered) opened.journal.forget(entry)
        expect(segments(damaged)).toEqual([])
        if (damage !== undefined) {
          expect(damage).toEqual({ segment: name, places: [place], keptAs: name.replace('.log', '.damaged') })
          expect([...damaged.files]).toEqual([[damage.keptAs, bytes]])
        } else {
          // The length of the very last record changed, so it looks like one that was not written whole.
          expect([name, broken]).toEqual([names.at(-1), records.length - 1])
          expect(opened.tornBytes).toBe(bytes.length - offset)
          expect(damaged.files.size).toBe(0)
        }
      }),
      { numRuns: 1_000 },
    )
  })

  it('does not use the number of a damaged segment again', () => {
    const disk = createMemoryDisk()
    for (const name of ['00000001', '00000002']) {
      open(disk).write('one', 'two')
      flipBit(disk.files.get(`${name}.log`)!, headerBytes * 8)
      const { journal, recovered } = open(disk)
      for (const { entry } of recovered) journal.forget(entry)
    }
    expect([...disk.files.keys()]).toEqual(['00000001.damaged', '00000002.damaged'])
  })

  it('renames a segment without any readable record at once', () => {
    const disk = createMemoryDisk()
    open(disk).write('one')
    flipBit(disk.files.get('00000001.log')!, headerBytes * 8)
    expect(open(disk)).toMatchObject({ recovered: [], damages: [{ places: [{ offset: 0, bytes: headerBytes + 3 }] }] })
    expect([...disk.files.keys()]).toEqual(['00000001.damaged'])
  })

  it('ignores and keeps files of other names, and removes segments of 0 bytes', () => {
    const strangers: [string, Buffer][] = [
      'lock',
      'node',
      '1.log',
      '00000001.log.bak',
      'notes.txt',
      '0000000x.log',
    ].map(name => [name, Buffer.from('not ours')])
    const disk = createMemoryDisk([...strangers, ['00000007.log', Buffer.alloc(0)]])
    const { recovered, tornBytes, journal, write } = open(disk)
    expect({ recovered, tornBytes, bytes: journal.bytes }).toEqual({ recovered: [], tornBytes: 0, bytes: 0 })
    expect([...disk.files]).toEqual(strangers)
    write('a')
    expect(recover(disk.files)).toEqual(['a'])
  })

  it('cuts off a segment of zeros', () => {
    const disk = createMemoryDisk([['00000001.log', Buffer.alloc(4_096)]])
    expect(open(disk)).toMatchObject({ recovered: [], tornBytes: 4_096, damages: [] })
    expect(disk.files.size).toBe(0)
  })

  it('reads segments in the order of their numbers, even when the names grow', () => {
    const source = createMemoryDisk()
    const { write } = open(source, { segmentBytes: 1 })
    write('first')
    write('second')
    const [first, second] = segments(source).map(name => source.files.get(name)!)
    const disk = createMemoryDisk([
      ['100000000.log', second!],
      ['99999999.log', first!],
    ])
    const opened = open(disk)
    expect(texts(opened)).toEqual(['first', 'second'])
    opened.write('third')
    expect(segments(disk)).toContain('100000001.log')
  })

  it('reports the error of the disk when it cannot be cleaned', () => {
    const disk = createMemoryDisk([['00000001.log', Buffer.alloc(3)]])
    disk.isReadOnly = true
    expect(() => open(disk)).toThrow(/could not be opened \(EROFS.*Check the free space and the rights/)
  })
})

describe('a disk that refuses', () => {
  it('rejects the records of a write that failed after any byte, never recovers them, and goes on after them', () => {
    fc.assert(
      fc.property(
        fc.array(payload, { maxLength: 3 }),
        fc.array(payload, { minLength: 1, maxLength: 3 }),
        (good, bad) => {
          const whole = createMemoryDisk()
          open(whole).write(...bad)
          for (let kept = 0; kept <= storedBytes(whole); kept++) {
            const disk = createMemoryDisk()
            const { journal, write } = open(disk)
            write(...good)
            disk.failNextAppendAfter(kept)
            for (const { failure, entry } of write(...bad)) {
              expect(failure).toMatchObject({ name: 'JournalUnavailable', reason: 'disk' })
              expect(entry).toBeUndefined()
            }
            expect(journal.entries).toBe(good.length)
            expect(journal.bytes).toBe(storedBytes(disk))
            expect(recover(disk.files)).toEqual(good)
            expect(write('later')[0]?.failure).toBeUndefined()
            expect(recover(disk.files)).toEqual([...good, 'later'])
          }
        },
      ),
      { numRuns: 30 },
    )
  })

  it('appends nothing after a torn write that could not be cut off', () => {
    const disk = createMemoryDisk()
    const { write, journal } = open(disk)
    write('a')
    const append = disk.append
    disk.append = (name, bytes) => {
      disk.append = append
      disk.isReadOnly = true
      disk.files.set(name, Buffer.concat([disk.files.get(name)!, bytes.subarray(0, 20)]))
      throw new Error('EIO: i/o error')
    }
    expect(write('torn 1', 'torn 2')[0]?.failure?.reason).toBe('disk')
    expect(write('b')[0]?.failure?.reason).toBe('disk')
    // The only case in which a refused record is recovered: the process dies before the disk is writable again.
    expect(recover(disk.files)).toEqual(['a', 'torn 1'])
    disk.isReadOnly = false
    expect(write('c')[0]?.failure).toBeUndefined()
    expect(recover(disk.files)).toEqual(['a', 'c'])
    expect(journal.bytes).toBe(storedBytes(disk))
  })

  it('accepts records again after an append that created no file', () => {
    const disk = createMemoryDisk()
    const { write } = open(disk)
    disk.isReadOnly = true
    expect(write('a')[0]?.failure?.reason).toBe('disk')
    disk.isReadOnly = false
    expect(write('b')[0]?.failure).toBeUndefined()
    expect(recover(disk.files)).toEqual(['b'])
  })

  it('leaves one file behind, however often a first append fails', () => {
    const disk = createMemoryDisk()
    const { write } = open(disk, { segmentBytes: 1 })
    for (let time = 0; time < 3; time++) {
      disk.failNextAppendAfter(5)
      write('a')
    }
    expect([...disk.files]).toEqual([['00000001.log', Buffer.alloc(0)]])
  })

  it('is not left torn when the limit is reached', () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk, { maxBytes: 30 })
    journal.forget(write('a')[0]!.entry!)
    const append = disk.append
    disk.append = (name, bytes) => {
      disk.append = append
      disk.isReadOnly = true
      disk.files.set(name, Buffer.concat([disk.files.get(name)!, bytes.subarray(0, 3)]))
      throw new Error('EIO: i/o error')
    }
    write('torn')
    expect(write('too long for the bound')[0]?.failure?.reason).toBe('full')
    disk.isReadOnly = false
    write('b')
    expect(open(disk)).toMatchObject({ tornBytes: 0, damages: [] })
  })

  it('keeps counting a segment that cannot be removed, and removes it later', () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk, { segmentBytes: 1 })
    const [first] = write('first')
    const [second] = write('second')
    write('third')
    disk.isReadOnly = true
    journal.forget(first!.entry!)
    expect(journal.entries).toBe(2)
    expect(journal.bytes).toBe(storedBytes(disk))
    disk.isReadOnly = false
    journal.forget(second!.entry!)
    expect(segments(disk)).toEqual(['00000003.log'])
    expect(journal.bytes).toBe(storedBytes(disk))
  })
})

describe('segments', () => {
  it('are rotated before they exceed their size, and removed when all of their records are forgotten', () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk, { segmentBytes: 3 * (headerBytes + 1) })
    const written = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].flatMap(each => write(each))
    expect(segments(disk)).toEqual(['00000001.log', '00000002.log', '00000003.log'])
    const [a, b, c, d, e, f, g] = written.map(({ entry }) => entry!)
    journal.forget(d!)
    journal.forget(d!)
    journal.forget(e!)
    expect(segments(disk)).toHaveLength(3)
    journal.forget(f!)
    expect(segments(disk)).toEqual(['00000001.log', '00000003.log'])
    expect(recover(disk.files)).toEqual(['a', 'b', 'c', 'g'])
    for (const entry of [a, b, c, g]) journal.forget(entry!)
    // The current segment stays until the next one follows.
    expect(segments(disk)).toEqual(['00000003.log'])
    expect(journal.entries).toBe(0)
    write('h', 'i', 'j')
    expect(segments(disk)).toEqual(['00000004.log'])
    expect(journal.bytes).toBe(storedBytes(disk))
  })

  it('store a write that is larger than their size', () => {
    const disk = createMemoryDisk()
    const { write } = open(disk, { segmentBytes: 20 })
    write('a'.repeat(50), 'b'.repeat(50))
    write('c')
    expect(segments(disk)).toHaveLength(2)
    expect(recover(disk.files)).toEqual(['a'.repeat(50), 'b'.repeat(50), 'c'])
  })

  it('of earlier processes are removed when their records are forgotten', () => {
    const disk = createMemoryDisk()
    open(disk).write('a', 'b')
    const { journal, recovered, write } = open(disk)
    write('c')
    for (const { entry } of recovered) journal.forget(entry)
    expect(recover(disk.files)).toEqual(['c'])
  })
})

describe('the limit of bytes', () => {
  const recordBytes = headerBytes + 1

  it('refuses records beyond it, counting those that wait, and accepts them again when records are forgotten', () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk, { segmentBytes: 2 * recordBytes, maxBytes: 5 * recordBytes })
    const written = [...write('a', 'b'), ...write('c', 'd'), ...write('e', 'f', 'g')]
    expect(written.map(({ failure }) => failure?.reason)).toEqual([...Array(5), 'full', 'full'])
    expect(written[5]?.failure?.message).toBe('The journal is full: 45 of 45 bytes are used.')
    expect(write('h')[0]?.failure?.reason).toBe('full')
    expect(storedBytes(disk)).toBe(5 * recordBytes)
    journal.forget(written[0]!.entry!)
    expect(write('i')[0]?.failure?.reason).toBe('full')
    journal.forget(written[1]!.entry!)
    expect(write('j', 'k', 'l').map(({ failure }) => failure?.reason)).toEqual([undefined, undefined, 'full'])
    expect(recover(disk.files)).toEqual(['c', 'd', 'e', 'j', 'k'])
  })

  it('is not reached by a current segment with no live record', () => {
    const disk = createMemoryDisk()
    const { journal, write } = open(disk, { maxBytes: 3 * recordBytes })
    for (const each of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) {
      const [outcome] = write(each)
      expect(outcome?.failure).toBeUndefined()
      journal.forget(outcome!.entry!)
      expect(journal.bytes).toBe(storedBytes(disk))
    }
    expect(storedBytes(disk)).toBe(recordBytes)
  })

  it('counts the segments of earlier processes', () => {
    const disk = createMemoryDisk()
    open(disk).write('a', 'b', 'c')
    const { journal, recovered, write } = open(disk, { maxBytes: 2 * recordBytes })
    expect(write('d')[0]?.failure?.reason).toBe('full')
    for (const { entry } of recovered) journal.forget(entry)
    expect(write('d')[0]?.failure).toBeUndefined()
  })
})

describe('with fsync', () => {
  /** Runs everything that only waits for promises. */
  const settle = () => new Promise(resolve => setImmediate(resolve))

  it('reports a record after its sync, and syncs all writes of one sync together in the next', async () => {
    const disk = createMemoryDisk()
    disk.pendingSyncs = []
    const { write } = open(disk, { fsync: true })
    const first = write('a', 'b')
    const second = write('c')
    const third = write('d')
    expect(disk.pendingSyncs).toHaveLength(1)
    expect(first[0]?.entry).toBeUndefined()
    disk.pendingSyncs[0]!.resolve()
    await settle()
    expect(first.every(({ entry }) => entry)).toBe(true)
    expect(second[0]?.entry).toBeUndefined()
    expect(disk.pendingSyncs).toHaveLength(2)
    disk.pendingSyncs[1]!.resolve()
    await settle()
    expect([...second, ...third].every(({ entry }) => entry)).toBe(true)
    expect(disk.pendingSyncs).toHaveLength(2)
  })

  it('syncs each segment of a group', async () => {
    const disk = createMemoryDisk()
    disk.pendingSyncs = []
    const { write } = open(disk, { fsync: true, segmentBytes: 1 })
    const outcomes = ['a', 'b', 'c'].flatMap(each => write(each))
    for (let index = 0; index < 3; index++) {
      disk.pendingSyncs[index]!.resolve()
      await settle()
      expect(outcomes.filter(({ entry }) => entry)).toHaveLength(index + 1)
    }
    expect(disk.pendingSyncs.map(({ name }) => name)).toEqual(['00000001.log', '00000002.log', '00000003.log'])
  })

  it('syncs the name of a new segment before it reports a record in it', async () => {
    const disk = createMemoryDisk()
    const { write } = open(disk, { fsync: true, segmentBytes: 1 })
    const reported: string[][] = []
    for (const text of ['a', 'b']) {
      const [outcome] = write(text)
      while (outcome!.entry === undefined) await settle()
      reported.push([...disk.syncedNames])
    }
    expect(reported).toEqual([['00000001.log'], ['00000001.log', '00000002.log']])
  })

  it('rejects every record that waited for a failed sync, and goes on in a new segment', async () => {
    const disk = createMemoryDisk()
    disk.pendingSyncs = []
    const { journal, write } = open(disk, { fsync: true })
    const safe = write('safe')
    disk.pendingSyncs[0]!.resolve()
    await settle()
    const failed = write('a')
    const behind = write('b')
    disk.pendingSyncs[1]!.reject(new Error('EIO: i/o error'))
    await settle()
    expect(safe[0]?.entry).toBeDefined()
    for (const { failure } of [...failed, ...behind]) expect(failure?.message).toContain('could not be synced (EIO')
    expect(journal.entries).toBe(1)
    const later = write('later')
    disk.pendingSyncs[2]!.resolve()
    await settle()
    expect(later[0]?.entry).toBeDefined()
    expect(segments(disk)).toEqual(['00000001.log', '00000002.log'])
    expect(recover(disk.files)).toEqual(['safe', 'later'])
    expect(journal.bytes).toBe(storedBytes(disk))
  })

  it('closes after the last sync', async () => {
    const disk = createMemoryDisk()
    disk.pendingSyncs = []
    const { journal, write } = open(disk, { fsync: true })
    const [outcome] = write('a')
    let isClosed = false
    const closing = journal.close().then(() => {
      isClosed = true
    })
    await settle()
    expect(isClosed).toBe(false)
    disk.pendingSyncs[0]!.resolve()
    await closing
    expect(outcome?.entry).toBeDefined()
  })
})

describe('closing', () => {
  it('writes waiting records, refuses later ones, and leaves records that are not forgotten', async () => {
    const disk = createMemoryDisk()
    const { journal, turns, write } = open(disk)
    let entry: JournalEntry | undefined
    journal.write('a', (_, written) => {
      entry = written
    })
    await journal.close()
    expect(entry).toBeDefined()
    expect(write('b')[0]?.failure).toMatchObject({ reason: 'closed' })
    const refused = append(journal, 'c')
    turns.next()
    await expect(refused).rejects.toThrow(JournalUnavailable)
    // Another process may have the directory now.
    journal.forget(entry!)
    expect(recover(disk.files)).toEqual(['a'])
    await journal.close()
  })

  it('leaves no file when every record is forgotten', async () => {
    const disk = createMemoryDisk()
    open(disk).write('a')
    const { journal, recovered, write } = open(disk)
    const [b] = write('b')
    journal.forget(b!.entry!)
    journal.forget(recovered[0]!.entry)
    await journal.close()
    expect(disk.files.size).toBe(0)
  })
})

describe('any order of operations', () => {
  const operation = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('write' as const), count: fc.integer({ min: 1, max: 4 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('fail' as const), kept: fc.nat({ max: 60 }) }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('forget' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const), torn: fc.nat({ max: 30 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('close' as const) }) },
  )

  it('recovers each written record that is not forgotten once, and no refused record', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 60 }), async operations => {
        const options = { segmentBytes: 80, maxBytes: 400 }
        let disk = createMemoryDisk()
        let node = open(disk, options)
        const live = new Map<string, JournalEntry>()
        const accepted = new Set<string>()
        let next = 0
        const reopen = () => {
          node = open(disk, options)
          const found = texts(node)
          expect(new Set(found).size).toBe(found.length)
          expect([...live.keys()].filter(text => !found.includes(text))).toEqual([])
          expect(found.filter(text => !accepted.has(text))).toEqual([])
          expect(node.damages).toEqual([])
          live.clear()
          for (const { payload: bytes, entry } of node.recovered) live.set(String(bytes), entry)
        }
        for (const step of operations) {
          if (step.kind === 'write') {
            const before = storedBytes(disk)
            for (const { payload: text, entry, failure } of node.write(
              ...Array.from({ length: step.count }, () => `record ${next++}`),
            )) {
              if (entry) live.set(text, entry)
              if (entry) accepted.add(text)
              expect(failure === undefined).toBe(entry !== undefined)
              if (before === 0 && failure) expect(failure.reason).toBe('disk')
            }
          } else if (step.kind === 'fail') disk.failNextAppendAfter(step.kept)
          else if (step.kind === 'forget') {
            const [text, entry] = [...live][step.which % live.size] ?? []
            if (text === undefined || entry === undefined) continue
            live.delete(text)
            node.journal.forget(entry)
          } else if (step.kind === 'crash') {
            // A crash during a write: some bytes of unreported records.
            const last = segments(disk).at(-1)
            disk = createMemoryDisk(disk.files)
            const half = Buffer.concat([Buffer.from([40, 0, 0, 0, 1, 2, 3, 4]), Buffer.alloc(22, 'x')])
            if (last) disk.append(last, half.subarray(0, step.torn))
            reopen()
          } else {
            await node.journal.close()
            reopen()
          }
          expect(node.journal.entries).toBe(live.size)
          expect(node.journal.bytes).toBe(storedBytes(disk))
          expect(node.journal.bytes).toBeLessThanOrEqual(options.maxBytes)
        }
      }),
      { numRuns: 500 },
    )
  })
})
