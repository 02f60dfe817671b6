import { backUp } from '../../jobs/back-up.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { commandRunner } from './run-command.ts'

/** Returns the job that makes the backups of the configuration. */
export function createBackupJob(
  { config, clock, log }: ComposeContext,
  { general }: Database,
): (signal: AbortSignal) => Promise<void> {
  const { backup: plan } = config
  if (plan === null) return async () => {}
  const run = commandRunner(config)
  return signal => backUp({ sql: general, plan, run, clock, log }, signal)
}
