import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'

/** False where the first start would create an embedded PostgreSQL. One that was given as a URL is taken to be there. */
export function hasDatabase({ databaseUrl, dataDir }: Pick<Config, 'databaseUrl' | 'dataDir'>): boolean {
  return databaseUrl !== null || hasFiles(join(dataDir, 'postgres'))
}

/** An empty directory, such as one where nothing is mounted yet, is none. */
function hasFiles(directory: string): boolean {
  try {
    return readdirSync(directory).length > 0
  } catch (error) {
    // What may not be read is there, and whoever opens it says why it may not.
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
  }
}
