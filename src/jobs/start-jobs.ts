import type { Pool } from '../base/db/pool.ts'
import { writeFirstTrustDays } from '../market/trust/write-trust-days.ts'
import { addUsagePartitions } from '../money/ledger/settlement/add-usage-partitions.ts'
import { addContentDays } from '../money/usage/content/keep-content-days.ts'
import { createTasks, type TaskDeps } from './create-tasks.ts'
import { RestartingQueue } from './restarting-queue.ts'

export interface Jobs {
  /** Lets running jobs finish, then stops. Never rejects. */
  stop(): Promise<void>
}

export interface JobsDeps extends TaskDeps {
  /** Created with `forQueue`: graphile-worker writes job ids as JSON, which has no bigint. */
  readonly queuePool: Pool
  /** Called after each restart of the queue. */
  readonly onQueueRestart: () => void
  /** Called when a job has failed; the queue tries it again. */
  readonly onJobFailure: (task: string) => void
  /** See `RestartingQueueDeps`. */
  readonly pollMs?: number
}

/**
 * Starts the scheduled jobs and the delivery of alerts. However many nodes there are, graphile-worker gives
 * each job to one of them. A job runs again if PostgreSQL could not record its end.
 */
export async function startJobs(deps: JobsDeps): Promise<Jobs> {
  const { pool, queuePool, auditPool, clock, onQueueRestart, onJobFailure, pollMs, log } = deps
  await addFirstPartitions(deps)
  await addFirstContentDays(deps)
  await writeFirstTrustDays({ pool: auditPool, clock })
  const stopping = new AbortController()
  const taskList = createTasks(deps, stopping.signal)
  const queue = new RestartingQueue({ pool, queuePool, taskList, onRestart: onQueueRestart, onJobFailure, log, pollMs })
  await queue.start()
  return {
    async stop() {
      stopping.abort()
      await queue.stop()
    },
  }
}

const LOCK_NOT_AVAILABLE = '55P03'

/**
 * A new installation needs the partition of this month before its first usage row, so this does not wait for
 * the nightly job.
 */
async function addFirstPartitions({ pool, clock, log }: JobsDeps): Promise<void> {
  try {
    await addUsagePartitions(pool, clock.epochMs())
  } catch (error) {
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error
    // A backup can read the table for hours, and startup does not wait for it. The partitions that are needed
    // first already exist: on the first day of a month only the one for two months later is missing.
    log.warn(
      { err: error },
      'no partitions for usage rows can be created now, because a backup or an audit is reading them; trying again tonight',
    )
  }
}

/** A gateway serves without them: it then records no prompts and answers. */
async function addFirstContentDays({ pool, clock, log }: JobsDeps): Promise<void> {
  try {
    await addContentDays(pool, clock.epochMs())
  } catch (error) {
    log.warn({ err: error }, 'no partitions for prompts and answers can be created now; trying again within the hour')
  }
}
