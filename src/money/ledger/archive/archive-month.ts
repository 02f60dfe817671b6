import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Pool } from '../../../base/db/pool.ts'
import { systemErrorText } from '../../../base/runtime/error-message.ts'
import { lowestUuidAt } from '../../../base/runtime/uuid.ts'
import { type ArchiveFile, writeArchiveFile } from './write-archive-file.ts'

/** Thrown when a month cannot be archived now. The message is a sentence for the operator. */
export class ArchiveRefused extends Error {
  override name = 'ArchiveRefused'
}

/**
 * Moves the usage rows of a month from the database to the file `usage-<month>.ndjson.gz` in `directory`, and leaves
 * sums in their place: see sql/functions/usage/months.sql. Killed at any point, it leaves the month live, frozen or
 * archived, and the ledger correct. The next call continues. Requires that no other process archives to this directory.
 * Throws ArchiveRefused.
 *
 * @param month `2026-01`
 */
export async function archiveMonth(
  pool: Pool,
  month: string,
  directory: string,
): Promise<ArchiveFile & { readonly path: string }> {
  const fileName = `usage-${month}.ndjson.gz`
  const path = join(directory, fileName)
  const [year, monthNumber] = month.split('-').map(Number) as [number, number]
  const name = month.replace('-', '_')
  try {
    // Another command may have begun or ended an archive of the month since it was listed.
    const state = await readState(pool, month)
    if (state === 'archived') throw new ArchiveRefused(`Cannot archive ${month}: another command has archived it.`)
    if (state === 'live') {
      if (existsSync(path)) {
        throw new ArchiveRefused(
          `${path} exists, but the usage rows of ${month} are in the database. Move the file, or choose another directory with --out or usage.archive_directory.`,
        )
      }
      const bounds = [Date.UTC(year, monthNumber - 1), Date.UTC(year, monthNumber)].map(lowestUuidAt)
      await freeze(pool, name, [`${month}-01`, ...bounds])
    }
    const file = await writeArchiveFile(pool, `usage_frozen_${name}`, path)
    await pool.query('SELECT finish_usage_archive($1, $2, $3, $4, $5)', [
      `${month}-01`,
      file.requests,
      file.costNanos,
      fileName,
      file.sha256,
    ])
    // Without statistics, the audit reads the sums of a month again and again.
    await pool.query('ANALYZE usage_closing')
    return { ...file, path }
  } catch (error) {
    throw explained(error, month, directory)
  }
}

async function readState(pool: Pool, month: string): Promise<'live' | 'frozen' | 'archived'> {
  const { rows } = await pool.query<{ isArchived: boolean }>(
    'SELECT archived_at IS NOT NULL AS "isArchived" FROM usage_archive WHERE month = $1',
    [`${month}-01`],
  )
  if (rows[0] === undefined) return 'live'
  return rows[0].isArchived ? 'archived' : 'frozen'
}

/** @param name the month in names of partitions: `2026_01` */
async function freeze(pool: Pool, name: string, monthAndBounds: readonly string[]): Promise<void> {
  // Ends an autovacuum of the partition, and starts no other. It would keep the freeze from its lock.
  await pool.query(`ALTER TABLE usage_event_${name} SET (autovacuum_enabled = false)`)
  try {
    await pool.query('SELECT freeze_usage_month($1, $2, $3)', monthAndBounds)
  } catch (error) {
    await pool.query(`ALTER TABLE usage_event_${name} RESET (autovacuum_enabled)`).catch(() => {})
    throw error
  }
}

/** SQLSTATE of sql/functions/usage/months.sql. */
const REFUSED = 'SY003'
const LOCK_NOT_AVAILABLE = '55P03'
const UNDEFINED_TABLE = '42P01'
/** System calls on the files of an archive. Those on connections have other names. */
const FILE_CALLS = ['open', 'write', 'fsync', 'rename']

function explained(error: unknown, month: string, directory: string): unknown {
  const { code, message, syscall } = error as NodeJS.ErrnoException
  if (FILE_CALLS.includes(syscall ?? ''))
    return new ArchiveRefused(
      `Cannot archive ${month}: cannot write to ${directory}: ${systemErrorText(error)}. Its rows are complete in the database. Free space, or choose another directory with --out or usage.archive_directory, and run the command again.`,
    )
  // The other command drops the rows while this one reads them.
  if (code === UNDEFINED_TABLE) return new ArchiveRefused(`Cannot archive ${month}: another command has archived it.`)
  if (code === REFUSED) return new ArchiveRefused(`Cannot archive ${month}: ${message}.`)
  if (code !== LOCK_NOT_AVAILABLE) return error
  return new ArchiveRefused(
    `Cannot archive ${month}: for ten minutes a long transaction, such as a dump or an audit, has read the usage rows. Try again when it has ended.`,
  )
}
