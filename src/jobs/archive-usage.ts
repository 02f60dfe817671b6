import { archivableBefore, unarchivedMonths } from '../money/ledger/archive/usage-months.ts'
import { noteScheduledRun } from '../operator/scheduled-run.ts'
import type { CommandJobDeps } from './command-job.ts'

export interface ArchiveJobDeps extends CommandJobDeps {
  /** How many whole months keep their usage rows, besides the one that runs. */
  readonly keepMonths: number
}

/**
 * Archives the months that are older than the configuration keeps, with the command of operators, in a process of its own: it
 * moves partitions, which the role that serves requests may not. A month that is left half-way is complete in the database, and
 * the next run continues with it. Throws when the gateway stops meanwhile, so that the job runs again.
 */
export async function archiveUsage(
  { sql, keepMonths, run, clock, log }: ArchiveJobDeps,
  signal: AbortSignal,
): Promise<void> {
  const before = await archivableBefore(sql, keepMonths)
  const months = (await unarchivedMonths(sql, before)).map(({ month }) => month)
  const failure = months.length === 0 ? null : await run(['usage', 'archive', '--before', before, '--yes'], signal)
  signal.throwIfAborted()
  if (failure?.isBusy)
    return log.info({ reason: failure.reason }, 'another process archives usage rows; trying again tomorrow')
  const problem = failure?.reason ?? null
  if (problem !== null)
    log.error({ reason: problem, months }, 'usage rows could not be archived; trying again tomorrow')
  else if (months.length > 0) log.info({ months }, 'archived usage rows')
  await noteScheduledRun(sql, 'usage_archive', { atMs: clock.epochMs(), problem })
}
