import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from './config/config.ts'

/**
 * Returns false if the first start would create an embedded PostgreSQL. A database given as a URL is assumed
 * to exist.
 */
export function hasDatabase({ databaseUrl, dataDir }: Pick<Config, 'databaseUrl' | 'dataDir'>): boolean {
  return databaseUrl !== null || hasFiles(join(dataDir, 'postgres'))
}

/** An empty directory, such as a mount point without its disk, holds no database. */
function hasFiles(directory: string): boolean {
  try {
    return readdirSync(directory).length > 0
  } catch (error) {
    // An unreadable directory exists: opening the database reports why it cannot be read.
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
  }
}
