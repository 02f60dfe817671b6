import type { BackupPlace } from '../../base/domain/backup-plan.ts'
import type { BackupStore } from './backup-store.ts'
import { directoryStore } from './directory-store.ts'

/** Returns the backups at this place. `bytesMax` bounds the size of one that is written. */
export async function openStore(place: BackupPlace, bytesMax = 0): Promise<BackupStore> {
  if (place.kind === 'directory') return directoryStore(place.path)
  // The client of buckets takes 30 ms and 8 MB, which every other command, and the gateway, would pay too.
  const { bucketStore } = await import('./bucket-store.ts')
  return bucketStore(place, { bytesMax })
}
