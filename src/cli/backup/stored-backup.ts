import type { ArchiveSource } from './archive.ts'
import type { BackupStore } from './backup-store.ts'

/** Returns the backup of this name, or the newest for `latest`. Throws an Error for the operator if there is none. */
export async function storedBackup(store: BackupStore, name: string): Promise<ArchiveSource> {
  const backups = await store.list()
  const found = name === 'latest' ? backups[0] : backups.find(backup => backup.name === name)
  if (found !== undefined) return store.read(found.name)
  throw new Error(
    backups.length === 0 ? 'There is no backup yet.' : `There is no backup ${name}. The newest is ${backups[0]?.name}.`,
  )
}
