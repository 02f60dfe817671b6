import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'

/** False where the first start would create an embedded PostgreSQL. One that was given as a URL is taken to be there. */
export function hasDatabase({ databaseUrl, dataDir }: Pick<Config, 'databaseUrl' | 'dataDir'>): boolean {
  return databaseUrl !== null || existsSync(join(dataDir, 'postgres'))
}
