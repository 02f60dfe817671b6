import type { Sql } from '../base/db/pool.ts'
import type { BackupPlan } from '../base/domain/backup-plan.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { noteBackupFailure, readBackupState } from '../operator/backup-state.ts'
import { backupDue } from './backup-due.ts'

export interface BackupJobDeps {
  readonly sql: Sql
  readonly plan: BackupPlan
  /** Runs a command of this program, and resolves with why it failed; null if it did not. */
  readonly run: (words: readonly string[], signal: AbortSignal) => Promise<string | null>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}

/**
 * Makes the backup that is due, then the restore test that is due. Both are commands in a process of their own: the role that
 * may read a whole cluster stays out of the process that serves requests, and compressing takes none of its time.
 */
export async function backUp({ sql, plan, run, clock, log }: BackupJobDeps, signal: AbortSignal): Promise<void> {
  for (const [kind, words] of steps) {
    if (backupDue(plan, await readBackupState(sql), clock.epochMs()) !== kind) continue
    const reason = await run(words, signal)
    if (signal.aborted) return
    if (reason === null) {
      log.info({}, kind === 'backup' ? 'made a backup' : 'restored a backup as a test')
      continue
    }
    log.error({ reason }, kind === 'backup' ? 'a backup failed' : 'a backup could not be restored as a test')
    await noteBackupFailure(sql, { atMs: clock.epochMs(), reason })
  }
}

const steps = [
  ['backup', ['backup', 'run']],
  ['test', ['backup', 'verify', '--restore']],
] as const
