import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { lowestUuidAt } from '../../../base/runtime/uuid.ts'

/**
 * Months to prepare beyond the current one. If the job does not run for longer, rows go to the default partition and
 * are moved when it runs again.
 */
const MONTHS_AHEAD = 2

/**
 * Makes sure that this UTC month and the next two each have a partition of usage rows. UUIDv7 ids begin with
 * their time, so a range of ids is a range of time. Returns the names of the partitions that were added. Run
 * it at start and once a day.
 */
export async function addUsagePartitions(db: Sql, nowEpochMs: number): Promise<string[]> {
  const added: string[] = []
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
    const [fromMs, toMs] = [monthStartMs(nowEpochMs, ahead), monthStartMs(nowEpochMs, ahead + 1)]
    const name = `usage_event_${new Date(fromMs).toISOString().slice(0, 7).replace('-', '_')}`
    const { isNew } = await queryRow<{ isNew: boolean }>(db, 'SELECT add_usage_partition($1, $2, $3) AS "isNew"', [
      name,
      lowestUuidAt(fromMs),
      lowestUuidAt(toMs),
    ])
    if (isNew) added.push(name)
  }
  return added
}

function monthStartMs(nowEpochMs: number, monthsLater: number): number {
  const now = new Date(nowEpochMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + monthsLater)
}
