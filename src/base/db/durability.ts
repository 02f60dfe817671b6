import type { Sql } from './pool.ts'
import { queryRow } from './query-row.ts'

/**
 * Returns a message for each setting of PostgreSQL with which a crash may lose committed charges. Empty when there is
 * none. `sql` must use a connection of a pool: the settings of its session count.
 */
export async function durabilityWarnings(sql: Sql): Promise<string[]> {
  const { fsync, full_page_writes, synchronous_commit } = await queryRow<Settings>(sql, SETTINGS)
  const warnings: string[] = []
  if (fsync === 'off')
    warnings.push(
      'fsync is off: a crash of the machine can lose charges or make the database unreadable. Set fsync = on in postgresql.conf, then reload PostgreSQL.',
    )
  if (full_page_writes === 'off')
    warnings.push(
      'full_page_writes is off: after a crash of the machine, a page of the database may be half old and half new. Set full_page_writes = on, unless the file system writes pages as a whole (ZFS).',
    )
  // Our sessions set it. A proxy in between may change it.
  if (!flushingCommits.has(synchronous_commit))
    warnings.push(
      `synchronous_commit is ${synchronous_commit} in the sessions of Switchyard, although they ask for on: a crash of PostgreSQL can lose the last charges. Connect to PostgreSQL without a proxy that changes settings.`,
    )
  return warnings
}

interface Settings {
  readonly fsync: string
  readonly full_page_writes: string
  readonly synchronous_commit: string
}

const SETTINGS = `
  SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
         current_setting('synchronous_commit') AS synchronous_commit`

const flushingCommits: ReadonlySet<string> = new Set(['on', 'remote_apply'])
