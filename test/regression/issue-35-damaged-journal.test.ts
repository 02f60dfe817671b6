import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { checkJournals } from '../../src/cli/doctor/check-machine.ts'
import { createJournals } from '../../src/money/ledger/journal/create-journals.ts'
import { createFileDisk } from '../../src/money/ledger/journal/file-disk.ts'
import type { JournalEntry } from '../../src/money/ledger/journal/journal.ts'
import { isDamagedName, isSegmentName } from '../../src/money/ledger/journal/recover-segments.ts'
import { createSizesFile } from '../../src/money/ledger/journal/segment-store.ts'
import { append } from '../journal/append.ts'

// Went wrong: an emptied segment lost 150 answers without a line in the log. So did one that was deleted, that ended early at
// the end of a record, or that an older copy had replaced: a segment alone does not show that records are missing.

interface Segment {
  readonly path: string
  /** The segment when it had one record. */
  readonly olderCopy: string
}

/** What an accident does to the segment, which has three records of the same length, and how many of them are left. */
const accidents: Record<string, { harm: (segment: Segment) => void; left: number }> = {
  emptied: { harm: ({ path }) => truncateSync(path, 0), left: 0 },
  'truncated in a record': { harm: ({ path }) => truncateSync(path, statSync(path).size - 3), left: 2 },
  'truncated between two records': { harm: ({ path }) => truncateSync(path, (statSync(path).size / 3) * 2), left: 2 },
  deleted: { harm: ({ path }) => unlinkSync(path), left: 0 },
  'filled with zeros': { harm: ({ path }) => overwrite(path, Buffer.alloc(statSync(path).size)), left: 0 },
  'filled with zeros at its end': {
    harm: ({ path }) => overwrite(path, Buffer.alloc(9), statSync(path).size - 9),
    left: 2,
  },
  'overwritten with an older copy': { harm: ({ path, olderCopy }) => copyFileSync(olderCopy, path), left: 1 },
  'replaced by an older copy': { harm: ({ path, olderCopy }) => renameSync(olderCopy, path), left: 1 },
}

describe.each(Object.entries(accidents))('a segment that is %s', (_, { harm, left }) => {
  test('is reported by the next start, with what is missing', async () => {
    const { dataDir, path, open, segment, files } = await journalOfThree()
    expect(checkJournals({ dataDir })).toEqual([])
    harm(segment)
    const { log, journals } = open()
    expect(journals.recovered).toHaveLength(left)
    expect(journals.damagedSegments).toBe(1)
    expect(log.error).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ journal: path, segment: '00000001.log', expectedRecords: 3, foundRecords: left }),
      expect.stringContaining('a journal is damaged'),
    )
    // It is kept for the operator, and reported once.
    for (const { forget } of journals.recovered) forget()
    await journals.own.removals()
    expect(files(isDamagedName)).toEqual(['00000001.damaged'])
    expect(checkJournals({ dataDir })).toMatchObject([
      { warning: true, detail: expect.stringContaining('journal/1/00000001.damaged') },
    ])
    expect(open().log.error).not.toHaveBeenCalled()
  })

  test('is reported by the running process, and its records can be written again', async () => {
    const { path, open, opened, entries, segment, files } = await journalOfThree()
    const { own } = opened.journals
    expect(await own.verify()).toBe(false)
    harm(segment)
    expect(await own.verify()).toBe(true)
    expect(opened.log.error).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ journal: path, segment: '00000001.log', expectedRecords: 3, foundRecords: left }),
      expect.stringContaining('a journal is damaged'),
    )
    expect(entries.map(entry => own.isIntact(entry))).toEqual([false, false, false])
    for (const [index, entry] of entries.entries()) {
      expect(own.isIntact(await append(own, `again ${index}`))).toBe(true)
      own.forget(entry)
    }
    await own.removals()
    expect(files(isDamagedName)).toEqual(['00000001.damaged'])
    expect(await own.verify()).toBe(false)
    expect(open().journals.recovered.map(({ payload }) => String(payload))).toEqual(['again 0', 'again 1', 'again 2'])
  })
})

test('a copy, and a directory after a restart of the machine, may have older segments: that is a warning', async () => {
  const { open, segment, files } = await journalOfThree()
  unlinkSync(segment.path)
  const { log, journals } = open('another boot')
  expect(log.error).not.toHaveBeenCalled()
  expect(log.warn).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ segment: '00000001.log', expectedRecords: 3, foundBytes: null }),
    expect.stringContaining('lacks records'),
  )
  expect(journals.damagedSegments).toBe(0)
  expect(files(isDamagedName)).toEqual([])
})

test('segments that are as written are not reported: after a crash, and without readable sizes', async () => {
  const { path, open } = await journalOfThree()
  for (const harm of [
    () => {},
    () => writeFileSync(join(path, 'sizes'), 'same boot\nend 7\n'),
    () => unlinkSync(join(path, 'sizes')),
  ]) {
    harm()
    const { log, journals } = open()
    expect(journals.recovered).toHaveLength(3)
    expect([log.error.mock.calls, log.warn.mock.calls]).toEqual([[], []])
  }
})

/** A journal with three records in one segment, as a process that is still running, or was killed, leaves it. */
async function journalOfThree() {
  const dataDir = mkdtempSync(join(tmpdir(), 'switchyard-damaged-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true }))
  const path = join(dataDir, 'journal', '1')
  const open = (identity = 'same boot') => {
    const log = { warn: vi.fn(), error: vi.fn() }
    const sizes = createSizesFile(path, identity)
    const claimed = { path, sizes, nodes: () => [], writeNodeIds() {}, keepReserve() {}, release() {} }
    const options = { scheduler: systemScheduler, fsync: false, maxBytes: 1 << 20, segmentBytes: 1 << 16, log }
    const disk = createFileDisk(path)
    onTestFinished(() => {
      disk.close()
      sizes.close()
    })
    return { log, journals: createJournals([{ claimed, disk }], options) }
  }
  const files = (isWanted: (name: string) => boolean) => readdirSync(path).filter(isWanted).sort()
  const opened = open()
  const { own } = opened.journals
  const entries: JournalEntry[] = [await append(own, 'charge 1')]
  const segment = { path: join(path, files(isSegmentName)[0]!), olderCopy: join(path, 'older') }
  writeFileSync(segment.olderCopy, readFileSync(segment.path))
  for (const payload of ['charge 2', 'charge 3']) entries.push(await append(own, payload))
  return { dataDir, path, open, opened, entries, segment, files }
}

function overwrite(path: string, bytes: Buffer, position = 0): void {
  const fd = openSync(path, 'r+')
  writeSync(fd, bytes, 0, bytes.length, position)
  closeSync(fd)
}
