import { noteScheduledRun } from '../operator/scheduled-run.ts'
import type { CommandJobDeps } from './command-job.ts'

/**
 * Writes the usage events of the days that are due, with the command of operators, in a process of its own: a Parquet file takes
 * seconds of CPU time. Throws when the gateway stops meanwhile, so that the job runs again.
 */
export async function exportUsage({ sql, run, clock, log }: CommandJobDeps, signal: AbortSignal): Promise<void> {
  const failure = await run(['usage', 'export-days'], signal)
  signal.throwIfAborted()
  if (failure?.isBusy)
    return log.info({ reason: failure.reason }, 'another process exports usage events; trying again tomorrow')
  const problem = failure?.reason ?? null
  if (problem === null) log.info({}, 'exported usage events')
  else log.error({ reason: problem }, 'usage events could not be exported; trying again tomorrow')
  await noteScheduledRun(sql, 'usage_export', { atMs: clock.epochMs(), problem })
}
