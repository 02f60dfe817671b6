import type { BackupPlace } from '../../base/domain/backup-plan.ts'
import type { BackupStore } from './backup-store.ts'
import { bucketStore } from './bucket-store.ts'
import { directoryStore } from './directory-store.ts'

/** Returns the backups at this place. `bytesMax` bounds the size of one that is written. */
export function openStore(place: BackupPlace, bytesMax = 0): BackupStore {
  return place.kind === 'directory' ? directoryStore(place.path) : bucketStore(place, { bytesMax })
}
