import { type Said, sentencesOf } from '../domain/said.ts'
import { durabilitySentences } from './durability-sentences.ts'
import type { Sql } from './pool.ts'
import { queryRow } from './query-row.ts'

const say = sentencesOf(durabilitySentences)

/**
 * Returns a message for each setting of PostgreSQL with which a crash may lose committed charges. Empty when there is
 * none. `sql` must use a connection of a pool: the settings of its session count.
 */
export async function durabilityWarnings(sql: Sql): Promise<Said[]> {
  const { fsync, full_page_writes, synchronous_commit } = await queryRow<Settings>(sql, SETTINGS)
  const warnings: Said[] = []
  if (fsync === 'off') warnings.push(say('durability.fsync'))
  if (full_page_writes === 'off') warnings.push(say('durability.full_page_writes'))
  if (!flushingCommits.has(synchronous_commit))
    warnings.push(say('durability.synchronous_commit', { value: synchronous_commit }))
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
