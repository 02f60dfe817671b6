import { stat, statfs } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { ReportedDisk } from './write-report.ts'

/**
 * Returns the space on the disks of these directories, each disk once. A directory that is missing or cannot be read has
 * none. Never rejects.
 */
export async function measureDisks(
  directories: Readonly<Record<ReportedDisk['what'], string>>,
): Promise<ReportedDisk[]> {
  const disks: ReportedDisk[] = []
  const devices = new Set<number>()
  for (const what of ['data', 'journal'] as const) {
    try {
      const path = directories[what]
      const { dev } = await stat(path)
      if (devices.has(dev)) continue
      devices.add(dev)
      const { bavail, blocks, bsize } = await statfs(path)
      disks.push({ host: hostname(), what, freeBytes: bavail * bsize, sizeBytes: blocks * bsize })
    } catch {
      // The gateway reports a directory that it cannot use when it uses it.
    }
  }
  return disks
}
