import type { BackupPlace } from '../../base/domain/backup-plan.ts'
import { directoryFiles } from './directory-files.ts'
import type { FilePlace } from './file-place.ts'

export async function openFiles(place: BackupPlace): Promise<FilePlace> {
  if (place.kind === 'directory') return directoryFiles(place.path)
  // See openStore.
  const { bucketFiles } = await import('./bucket-files.ts')
  return bucketFiles(place)
}
