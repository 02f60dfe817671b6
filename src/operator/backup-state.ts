import type { Sql } from '../base/db/pool.ts'
import { HOUR_MS } from '../base/domain/durations.ts'

/** What is known of the backups of this installation. A restored database knows of those before its own only. */
export interface BackupState {
  /** When the last complete backup began, Unix ms; null if none is known. */
  readonly lastMs: number | null
  /** The newest backup at the place of the configuration. */
  readonly stored: StoredBackupNote | null
  /** The last failure of a scheduled backup, or of its schedule. */
  readonly failure: { readonly atMs: number; readonly reason: string } | null
  readonly test: RestoreTest | null
}

export interface StoredBackupNote {
  /** See `placeName`. */
  readonly place: string
  readonly name: string
  readonly startedMs: number
  readonly bytes: number
}

/** The last time that a backup was restored as a test. */
export interface RestoreTest {
  readonly name: string
  readonly atMs: number
  readonly elapsedMs: number
  /** Why the backup cannot be restored; null when it can, and its ledger is right. */
  readonly problem: string | null
}

/** For a database that the gateway does not back up. Notes in it are of an earlier database, from which it was restored. */
export const noBackups: BackupState = { lastMs: null, stored: null, failure: null, test: null }

const LAST = 'last_backup'
const STORED = 'stored_backup'
const FAILURE = 'backup_failure'
const TEST = 'restore_test'

/** Notes that a backup that began at this time is complete. */
export async function noteBackup(sql: Sql, startedAt: Date): Promise<void> {
  await note(sql, LAST, startedAt.toISOString())
}

/** Notes a complete backup at the place of the configuration. */
export async function noteStoredBackup(sql: Sql, stored: StoredBackupNote): Promise<void> {
  await noteBackup(sql, new Date(stored.startedMs))
  await note(sql, STORED, JSON.stringify(stored))
}

export async function noteBackupFailure(sql: Sql, failure: NonNullable<BackupState['failure']>): Promise<void> {
  await note(sql, FAILURE, JSON.stringify(failure))
}

export async function noteRestoreTest(sql: Sql, test: RestoreTest): Promise<void> {
  await note(sql, TEST, JSON.stringify(test))
}

/** Whether a backup is missing that the gateway should know of. @param backupHours 0: backups are made by other means */
export function isBackupDue(lastMs: number | null, backupHours: number, nowMs: number): boolean {
  return backupHours !== 0 && (lastMs === null || nowMs - lastMs > backupHours * HOUR_MS)
}

export async function readBackupState(sql: Sql): Promise<BackupState> {
  const { rows } = await sql.query<{ name: string; value: string }>(
    'SELECT name, value FROM installation WHERE name = ANY ($1)',
    [[LAST, STORED, FAILURE, TEST]],
  )
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  const last = values.get(LAST)
  const parsed = <T>(name: string): T | null => JSON.parse(values.get(name) ?? 'null') as T | null
  return {
    lastMs: last === undefined ? null : Date.parse(last),
    stored: parsed(STORED),
    failure: parsed(FAILURE),
    test: parsed(TEST),
  }
}

async function note(sql: Sql, name: string, value: string): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [name, value],
  )
}
