import { archiveUsage } from '../../jobs/archive-usage.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { commandRunner } from './run-command.ts'

/** Returns the job that archives the usage rows which the configuration does not keep. */
export function createArchiveJob(
  { config, clock, log }: ComposeContext,
  { general }: Database,
): (signal: AbortSignal) => Promise<void> {
  const { keepMonths } = config.usage
  if (keepMonths === null) return async () => {}
  const run = commandRunner(config)
  return signal => archiveUsage({ sql: general, keepMonths, run, clock, log }, signal)
}
