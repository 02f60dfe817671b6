import { archiveUsage } from '../../jobs/archive-usage.ts'
import { exportUsage } from '../../jobs/export-usage.ts'
import type { Schedule } from '../../operator/scheduled-run.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { commandRunner } from './run-command.ts'

type Job = (signal: AbortSignal) => Promise<void>

/** Returns the schedules that the configuration has. */
export function usageSchedules({ usage }: ComposeContext['config']): Schedule[] {
  return [
    ...(usage.keepMonths === null ? [] : (['usage_archive'] as const)),
    ...(usage.export === null ? [] : (['usage_export'] as const)),
  ]
}

/** Returns the jobs that archive the usage rows which the configuration does not keep, and that export those of each day. */
export function createUsageJobs(
  { config, clock, log }: ComposeContext,
  { general }: Database,
): { readonly archiveUsage: Job; readonly exportUsage: Job } {
  const { keepMonths, export: plan } = config.usage
  const deps = { sql: general, run: commandRunner(config), clock, log }
  return {
    archiveUsage: async signal => {
      if (keepMonths !== null) await archiveUsage({ ...deps, keepMonths }, signal)
    },
    exportUsage: async signal => {
      if (plan !== null) await exportUsage(deps, signal)
    },
  }
}
