import {
  closeSync,
  fdatasync,
  fstatSync,
  fsync,
  openSync,
  readdirSync,
  readFileSync,
  truncateSync,
  unlink,
  writeSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Disk } from './disk.ts'
import { makeJournalDirectory } from './make-journal-directory.ts'

/** A disk in a directory of the file system. */
export interface FileDisk extends Disk {
  /** Closes the file that was appended to last. Appending again opens it again. */
  close(): void
}

/**
 * The files of `directory`, which is made when absent. Sub-directories are not seen. The file appended to last stays
 * open, since opening costs more than writing. Throws an error in words when the directory cannot be used.
 */
export function createFileDisk(directory: string): FileDisk {
  makeJournalDirectory(directory)
  const pathOf = (name: string) => join(directory, name)
  let current: OpenFile | undefined
  /** New files whose name would not survive a loss of power yet: that is the directory's to keep, not theirs. */
  const unsyncedNames = new Set<string>()

  function fileOf(name: string): OpenFile {
    if (current?.name === name) return current
    const fd = openSync(pathOf(name), 'a', 0o600)
    letGo()
    current = { name, fd, syncs: 0, isLeft: false }
    if (fstatSync(fd).size === 0) unsyncedNames.add(name)
    return current
  }

  function letGo(): void {
    if (current === undefined) return
    current.isLeft = true
    closeWhenUnused(current)
    current = undefined
  }

  return {
    list() {
      const entries = readdirSync(directory, { withFileTypes: true })
      return entries.filter(entry => entry.isFile()).map(entry => entry.name)
    },
    read: name => readFileSync(pathOf(name)),
    append(name, bytes) {
      const { fd } = fileOf(name)
      // A write may take a part, of a file as of a socket: near a full disk, a quota or a size limit.
      for (let offset = 0; offset < bytes.length; ) offset += writeSync(fd, bytes, offset)
    },
    async sync(name) {
      const file = current?.name === name ? current : { name, fd: openSync(pathOf(name), 'r+'), syncs: 0, isLeft: true }
      file.syncs++
      try {
        await syncData(file.fd)
      } finally {
        file.syncs--
        closeWhenUnused(file)
      }
      if (!unsyncedNames.has(name)) return
      await syncDirectory(directory)
      unsyncedNames.delete(name)
    },
    truncate: (name, length) => truncateSync(pathOf(name), length),
    remove(name, done) {
      if (current?.name === name) letGo()
      unsyncedNames.delete(name)
      // Not synchronously: while PostgreSQL syncs the same file system this takes up to 20 ms, and every request would wait for it.
      unlink(pathOf(name), done)
    },
    close: letGo,
  }
}

interface OpenFile {
  readonly name: string
  readonly fd: number
  /** Syncs that run. Its descriptor must not be closed meanwhile: another file could get the same number. */
  syncs: number
  /** Nothing appends to it any more. */
  isLeft: boolean
}

function closeWhenUnused(file: OpenFile): void {
  if (file.isLeft && file.syncs === 0) closeSync(file.fd)
}

const syncData = promisify(fdatasync)
const syncAll = promisify(fsync)

async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, 'r')
  await syncAll(handle.fd)
}
