import fs, { readdirSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { openJournals } from '../../src/money/ledger/journal/open-journals.ts'
import { append } from '../journal/append.ts'

/** A disk with this many bytes for the files below `root`. */
const disk = { root: '', capacityBytes: Number.POSITIVE_INFINITY }

const { writeSync, writeFileSync } = fs
const noSpace = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })

/** Lets writes of the journal fail as on a full disk. */
function limitDisk(): void {
  Object.assign(fs, {
    writeSync(fd: number, bytes: Buffer, offset: number, ...rest: number[]) {
      if (!fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(disk.root)) return writeSync(fd, bytes, offset, ...rest)
      const room = Math.max(disk.capacityBytes - usedBytes(), 0)
      if (room === 0) throw noSpace()
      return writeSync(fd, bytes, offset, Math.min(room, bytes.length - offset))
    },
    writeFileSync(path: string, data: string | Buffer, options: object) {
      // A file system gives out whole blocks.
      const isFull = usedBytes() + Math.max(data.length, 4_096) > disk.capacityBytes
      if (isFull && String(path).startsWith(disk.root)) throw noSpace()
      writeFileSync(path, data, options)
    },
  })
  syncBuiltinESMExports()
}

function usedBytes(): number {
  const files = readdirSync(disk.root, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

const log = { warn: vi.fn(), error: vi.fn() }
beforeEach(async () => {
  disk.root = await mkdtemp(join(tmpdir(), 'switchyard-journals-'))
  disk.capacityBytes = Number.POSITIVE_INFINITY
  vi.clearAllMocks()
  limitDisk()
})
afterEach(async () => {
  Object.assign(fs, { writeSync, writeFileSync })
  syncBuiltinESMExports()
  await rm(disk.root, { recursive: true })
})

const open = () => openJournals({ root: disk.root, scheduler: systemScheduler, fsync: false, maxBytes: 1 << 20, log })
/** The ids of the nodes, without the identity behind each. */
const nodes = async () => (await readFile(join(disk.root, '1', 'node'), 'utf8')).replace(/ .*/g, '')

/** A process that started, and left this in its journal when it ended. */
async function leave(nodeId: string, records: number): Promise<number> {
  const journals = await open()
  journals.addNode(nodeId)
  await journals.settled()
  let written = 0
  while (written < records && (await append(journals.own, 'x'.repeat(10_000)).catch(() => undefined))) written++
  await journals.close({ retired: false })
  return written
}

// Went wrong: on a full disk, a node that had been declared dead could not register again and refused all requests (fixed in 30c570f).
test('on a full disk a node can register under a new id and close its journal', async () => {
  const journals = await open()
  journals.addNode('first')
  await journals.settled()
  // A directory in place of the file makes the write fail.
  await mkdir(join(disk.root, '1', 'node.next'))
  journals.addNode('second')
  await journals.close({ retired: true })
  expect(log.error).toHaveBeenCalledTimes(2)

  const next = await open()
  expect(next.deadNodes).toEqual(['first'])
  next.addNode('third')
  await expect(next.settled()).rejects.toThrow(/^The journal cannot be kept in .*EISDIR/)
  await next.close({ retired: false })
})

// Went wrong: the id of the new node was written before the replay, which alone makes room.
test('a journal that has filled its disk starts again: its charges are replayed before anything is written', async () => {
  disk.capacityBytes = 300_000
  const written = await leave('first', Number.POSITIVE_INFINITY)
  expect(written).toBeGreaterThan(10)
  await rm(join(disk.root, '1', 'reserve'))
  disk.capacityBytes = usedBytes()

  const journals = await open()
  expect(journals.recovered).toHaveLength(written)
  expect(journals.deadNodes).toEqual(['first'])
  journals.addNode('second')
  for (const { forget } of journals.recovered) forget()
  await journals.settled()
  expect(await nodes()).toBe('second\n')
  expect(await append(journals.own, 'charge')).toBeDefined()
  await journals.close({ retired: false })
  expect(log.error).not.toHaveBeenCalled()
})

test('a disk that others have filled is survived once by the reserve, and then explained', async () => {
  await leave('first', 1)
  const start = async (nodeId: string) => {
    const journals = await open()
    journals.addNode(nodeId)
    for (const { forget } of journals.recovered) forget()
    await journals.own.removals()
    disk.capacityBytes = usedBytes()
    await journals.settled().finally(() => journals.close({ retired: false }))
  }
  await start('second')
  expect(await nodes()).toBe('second\n')
  expect(await readdir(join(disk.root, '1'))).not.toContain('reserve')
  await expect(start('third')).rejects.toThrow(
    /^The disk of the journal in .*journal.*1 is full \(ENOSPC.*Free at least 100 kB.*Do not remove files of the journal/,
  )
  // The ids of the dead stay for the next start.
  expect(await nodes()).toBe('second\n')
  disk.capacityBytes = Number.POSITIVE_INFINITY
  await leave('fourth', 0)
  expect(await nodes()).toBe('fourth\n')
  expect(statSync(join(disk.root, '1', 'reserve')).size).toBe(65_536)
})
