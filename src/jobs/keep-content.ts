import type { Pool } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { deleteLateContents } from '../money/usage/content/delete-contents.ts'
import { addContentDays, dropContentDays } from '../money/usage/content/keep-content-days.ts'

/** Prepares the next days of recorded content, and deletes what is older than `contentDays` or of a deleted customer. */
export async function keepContent(deps: {
  readonly pool: Pool
  readonly clock: Clock
  readonly contentDays: number
  readonly log: Pick<Log, 'info' | 'warn'>
}): Promise<void> {
  const { pool, clock, contentDays, log } = deps
  await addContentDays(pool, clock.epochMs())
  const late = await deleteLateContents(pool)
  if (late > 0) log.info({ requests: late }, 'deleted prompts and answers of deleted customers')
  try {
    const dropped = await dropContentDays(pool, clock.epochMs(), contentDays)
    if (dropped.length > 0) log.info({ dropped }, 'dropped old prompts and answers')
  } catch (error) {
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error
    log.warn(
      { err: error },
      'old prompts and answers are being read, by a backup for example; dropping them in an hour',
    )
  }
}

const LOCK_NOT_AVAILABLE = '55P03'
