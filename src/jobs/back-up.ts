import type { BackupPlan } from '../base/domain/backup-plan.ts'
import { noteBackupFailure, readBackupState } from '../operator/backup-state.ts'
import { backupDue } from './backup-due.ts'
import type { CommandJobDeps } from './command-job.ts'

export interface BackupJobDeps extends CommandJobDeps {
  readonly plan: BackupPlan
}

/**
 * Makes the backup that is due, then the restore test that is due. Both are commands in a process of their own: the role that
 * may read a whole cluster stays out of the process that serves requests, and compressing takes none of its time.
 */
export async function backUp({ sql, plan, run, clock, log }: BackupJobDeps, signal: AbortSignal): Promise<void> {
  for (const [kind, words] of steps) {
    if (backupDue(plan, await readBackupState(sql), clock.epochMs()) !== kind) continue
    const failure = await run(words, signal)
    if (signal.aborted) return
    if (failure?.isBusy)
      return log.info({ reason: failure.reason }, 'another process is at it; looking again in a minute')
    if (failure === null) {
      log.info({}, kind === 'backup' ? 'made a backup' : 'restored a backup as a test')
      continue
    }
    const { reason } = failure
    log.error({ reason }, kind === 'backup' ? 'a backup failed' : 'a backup could not be restored as a test')
    await noteBackupFailure(sql, { atMs: clock.epochMs(), reason })
  }
}

const steps = [
  ['backup', ['backup', 'run']],
  ['test', ['backup', 'verify', '--restore']],
] as const
