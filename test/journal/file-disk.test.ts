import { type FileHandle, mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import type { Disk } from '../../src/money/ledger/journal/disk.ts'
import { createFileDisk } from '../../src/money/ledger/journal/file-disk.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import { append } from './append.ts'
import { killJournalChildren, startJournalChild } from './journal-child.ts'

let parent: string
let root: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'switchyard-file-disk-'))
  root = join(parent, 'journal')
})
afterEach(async () => {
  killJournalChildren()
  await rm(parent, { recursive: true })
})

const removed = (disk: Disk, name: string) =>
  new Promise<void>((resolve, reject) => {
    disk.remove(name, error => (error ? reject(error) : resolve()))
  })

describe('a disk of files', () => {
  it('appends, reads, truncates and removes, and lists only files', async () => {
    const disk = createFileDisk(root)
    await mkdir(join(root, 'directory'))
    disk.append('a', Buffer.from('12345'))
    disk.append('b', Buffer.from('x'))
    disk.append('a', Buffer.from('678'))
    expect(String(disk.read('a'))).toBe('12345678')
    disk.truncate('a', 2)
    disk.append('a', Buffer.from('!'))
    expect(String(disk.read('a'))).toBe('12!')
    expect(disk.list().sort()).toEqual(['a', 'b'])
    await Promise.all([removed(disk, 'a'), removed(disk, 'b')])
    expect(disk.list()).toEqual([])
    await expect(removed(disk, 'b')).rejects.toThrow('ENOENT')
    // A file that was removed while open is not written to again.
    disk.append('c', Buffer.from('new'))
    expect(await readFile(join(root, 'c'), 'utf8')).toBe('new')
    disk.close()
    disk.close()
    disk.append('c', Buffer.from('er'))
    expect(String(disk.read('c'))).toBe('newer')
    disk.close()
  })

  it('syncs the open file, other files, and files that are closed or removed during the sync', async () => {
    const disk = createFileDisk(root)
    disk.append('a', Buffer.from('1'))
    const first = disk.sync('a')
    disk.append('b', Buffer.from('2'))
    const second = disk.sync('b')
    const third = removed(disk, 'b')
    await Promise.all([first, second, third, disk.sync('a')])
    await expect(disk.sync('b')).rejects.toThrow('ENOENT')
    disk.close()
  })

  it('syncs its directory', async () => {
    const disk = createFileDisk(root)
    disk.append('a', Buffer.from('1'))
    const { ino: inode } = await stat(root)
    await using probe = await open(root)
    const fileHandle = Object.getPrototypeOf(probe) as FileHandle
    const { sync } = fileHandle
    let syncs = 0
    using _ = vi.spyOn(fileHandle, 'sync').mockImplementation(async function (this: FileHandle) {
      const { ino } = await this.stat()
      await sync.call(this)
      // What other tests left running in this process may sync files, too.
      if (ino === inode) syncs++
    })
    await disk.syncDirectory()
    expect(syncs).toBe(1)
    disk.close()
  })

  it('is accessible to its owner only', async () => {
    const disk = createFileDisk(root)
    disk.append('a', Buffer.from('1'))
    disk.close()
    expect((await stat(root)).mode & 0o777).toBe(0o700)
    expect((await stat(join(root, 'a'))).mode & 0o777).toBe(0o600)
  })

  it('says what to do when its path cannot be a directory', async () => {
    await writeFile(join(parent, 'file'), '')
    expect(() => createFileDisk(join(parent, 'file', 'journal'))).toThrow(
      /^The journal cannot be kept in .*ENOTDIR.*Make it a directory on a local disk .* SWITCHYARD_DATA\.$/,
    )
  })
})

describe('a journal on a disk of files', () => {
  it.each([false, true])(
    'keeps records across restarts and leaves no file when all are forgotten (fsync %s)',
    async fsync => {
      const options = { scheduler: systemScheduler, fsync, segmentBytes: 4_096 }
      const payloads = Array.from({ length: 300 }, (_, index) => JSON.stringify({ index, text: 'ü'.repeat(index) }))
      const before = createFileDisk(root)
      const { journal } = openJournal({ disk: before, ...options })
      for (let start = 0; start < payloads.length; start += 30)
        await Promise.all(payloads.slice(start, start + 30).map(each => append(journal, each)))
      await journal.close()
      before.close()
      const disk = createFileDisk(root)
      const { journal: again, recovered } = openJournal({ disk, ...options })
      expect(recovered.map(({ payload }) => String(payload))).toEqual(payloads)
      for (const { entry } of recovered) again.forget(entry)
      await again.close()
      disk.close()
      expect(await readdir(root)).toEqual([])
    },
  )

  it('cuts off a write that was stored in part, and accepts shorter records after it', async () => {
    const child = startJournalChild(
      `const { journal } = openJournal({ disk: createFileDisk(root), scheduler: systemScheduler, fsync: false })
      for (const length of [1000, 1000, 1000, 1000, 20]) {
        const outcome = await append(journal, 'x'.repeat(length)).then(() => 'written', error => error.message)
        console.log(outcome)
      }`,
      root,
      3_584,
    )
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => child.nextLine()))
    await child.exited()
    expect(outcomes[3]).toMatch(/^The journal could not be written \(EFBIG.*Check the free space/)
    expect(outcomes.toSpliced(3, 1)).toEqual(Array(4).fill('written'))
    const { recovered, tornBytes } = openJournal({
      disk: createFileDisk(root),
      scheduler: systemScheduler,
      fsync: false,
    })
    expect(recovered.map(({ payload }) => payload.length)).toEqual([1000, 1000, 1000, 20])
    expect(tornBytes).toBe(0)
  })
})
