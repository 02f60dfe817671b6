import {
  closeSync,
  fdatasync,
  openSync,
  readdirSync,
  readFileSync,
  rename,
  truncateSync,
  unlink,
  writeSync,
} from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Disk } from './disk.ts'
import { makeJournalDirectory } from './make-journal-directory.ts'

/** A disk in a directory of the file system. */
export interface FileDisk extends Disk {
  /** Closes the file that was appended to last. The next append opens it again. */
  close(): void
}

/**
 * Opens `directory` and creates it if needed. Sub-directories are ignored. The file that was appended to last
 * stays open, since opening costs more than writing. Throws an error that says what to do when the directory
 * cannot be used.
 */
export function createFileDisk(directory: string): FileDisk {
  makeJournalDirectory(directory)
  const pathOf = (name: string) => join(directory, name)
  let current: OpenFile | undefined

  function fileOf(name: string): OpenFile {
    if (current?.name === name) return current
    const fd = openSync(pathOf(name), 'a', 0o600)
    release()
    current = { name, fd, syncs: 0, isLeft: false }
    return current
  }

  function release(): void {
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
    load: name => readFile(pathOf(name)).catch(() => undefined),
    append(name, bytes) {
      const { fd } = fileOf(name)
      // Near a full disk, a quota or a size limit, a write may store only a part.
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
    },
    async syncDirectory() {
      await using handle = await open(directory, 'r')
      await handle.sync()
    },
    truncate: (name, length) => truncateSync(pathOf(name), length),
    remove(name, done) {
      if (current?.name === name) release()
      // Asynchronous: while PostgreSQL syncs the same file system, unlink takes up to 20 ms, and every
      // request would wait for it.
      unlink(pathOf(name), done)
    },
    rename(name, newName, done) {
      if (current?.name === name) release()
      rename(pathOf(name), pathOf(newName), done)
    },
    close: release,
  }
}

interface OpenFile {
  readonly name: string
  readonly fd: number
  /** Running syncs. While there is one, the descriptor must stay open: another file could get the same number. */
  syncs: number
  /** Nothing appends to the file any more. */
  isLeft: boolean
}

function closeWhenUnused(file: OpenFile): void {
  if (file.isLeft && file.syncs === 0) closeSync(file.fd)
}

const syncData = promisify(fdatasync)
