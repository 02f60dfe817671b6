import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeDirectory } from '../../../base/db/make-directory.ts'
import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import type { AuditFinding } from './audit-checks.ts'
import type { AuditSlice } from './audit-slices.ts'

/** How far an audit has come. */
export interface AuditProgress {
  readonly startedAtEpochMs: number
  readonly slices: readonly AuditSlice[]
  /** How many of the slices are checked. */
  readonly done: number
  /** What the checks found so far: one entry per check, in order. */
  readonly findings: readonly AuditFinding[]
}

/** Where an audit keeps its progress, so that the next one can continue after an interruption. */
export interface AuditProgressStore {
  /** Undefined when no audit was interrupted. */
  load(): Promise<AuditProgress | undefined>
  /** Null: the audit has ended. */
  save(progress: AuditProgress | null): Promise<void>
}

/** Keeps the progress in PostgreSQL, for the job of all nodes. */
export function progressInDatabase(sql: Sql): AuditProgressStore {
  const name = 'ledger_audit_progress'
  return {
    async load() {
      const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [name])
      return rows[0] && (JSON.parse(rows[0].value) as AuditProgress)
    },
    async save(progress) {
      if (progress === null) {
        await sql.query('DELETE FROM installation WHERE name = $1', [name])
        return
      }
      await sql.query(
        'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
        [name, JSON.stringify(progress)],
      )
    },
  }
}

/**
 * Keeps the progress in a file, for the command line. Not in PostgreSQL: there the role of the gateway could skip
 * checks, and the command must not depend on what that role wrote. The progress of another database is ignored.
 */
export function progressInFile(sql: Sql, path: string): AuditProgressStore {
  const database = queryRow<{ id: string }>(
    sql,
    `SELECT current_database() || ' ' || applied_at AS id FROM migration WHERE version = 1`,
  ).then(({ id }) => id)
  // Awaited below. An error before that must not end the process.
  database.catch(() => {})
  return {
    async load() {
      const stored = readStored(path)
      return stored?.database === (await database) ? stored.progress : undefined
    },
    async save(progress) {
      if (progress === null) {
        rmSync(path, { force: true })
        return
      }
      makeDirectory(dirname(path), 0o700)
      const whole = `${path}.${randomUUID()}`
      writeFileSync(whole, JSON.stringify({ database: await database, progress }), { mode: 0o600 })
      renameSync(whole, path)
    },
  }
}

function readStored(path: string): { database: string; progress: AuditProgress } | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    // Missing, or cut off by a crash of the machine: the audit starts from the beginning.
    return undefined
  }
}
