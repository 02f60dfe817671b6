import type { Sql } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { noteScheduledRun } from '../operator/scheduled-run.ts'

export interface ExportJobDeps {
  readonly sql: Sql
  /** Runs a command of this program, and resolves with why it failed; null if it did not. */
  readonly run: (words: readonly string[], signal: AbortSignal) => Promise<string | null>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}

/**
 * Writes the usage events of the days that are due, with the command of operators, in a process of its own: a Parquet file takes
 * seconds of CPU time. Throws when the gateway stops meanwhile, so that the job runs again.
 */
export async function exportUsage({ sql, run, clock, log }: ExportJobDeps, signal: AbortSignal): Promise<void> {
  const problem = await run(['usage', 'export-days'], signal)
  signal.throwIfAborted()
  if (problem === null) log.info({}, 'exported usage events')
  else log.error({ reason: problem }, 'usage events could not be exported; trying again tomorrow')
  await noteScheduledRun(sql, 'usage_export', { atMs: clock.epochMs(), problem })
}
