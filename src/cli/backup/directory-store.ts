import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { fileSource, UNFINISHED, writeArchive } from './archive.ts'
import { type BackupStore, backupsAmong, LEFTOVER_MS } from './backup-store.ts'

/** Keeps backups as files of a directory, which must exist: a disk that is not mounted must not be taken for an empty one. */
export function directoryStore(path: string): BackupStore {
  const files = async () => {
    try {
      return await readdir(path)
    } catch (error) {
      throw new Error(
        `Cannot read ${path}: ${systemErrorText(error)}. Create the directory, mount its disk, or correct backup.to.`,
      )
    }
  }
  return {
    write: (name, entries) => writeArchive(join(path, name), entries),
    async list() {
      const found = backupsAmong((await files()).map(name => ({ name, bytes: 0 })))
      return await Promise.all(
        found.map(async backup => ({ ...backup, bytes: (await stat(join(path, backup.name))).size })),
      )
    },
    read: name => fileSource(join(path, name)),
    async remove(name) {
      try {
        await rm(join(path, name), { force: true })
      } catch (error) {
        throw new Error(`Cannot delete ${join(path, name)}: ${systemErrorText(error)}.`)
      }
    },
    async sweep() {
      for (const name of await files()) {
        const isOurs =
          name.endsWith(UNFINISHED) && backupsAmong([{ name: name.slice(0, -UNFINISHED.length), bytes: 0 }]).length > 0
        if (isOurs && (await stat(join(path, name))).mtimeMs < Date.now() - LEFTOVER_MS)
          await rm(join(path, name), { force: true })
      }
    },
  }
}
