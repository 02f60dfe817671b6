import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { deleteOldLinks } from './links.ts'
import { deleteOldNetworks } from './networks.ts'
import { deleteEndedSessions } from './sessions.ts'
import { deleteOldThrottles } from './sign-in-throttle.ts'

/** Deletes what no longer matters: ended sessions, unused links, old networks, forgotten failures and answers. */
export async function deleteOldTraces(sql: Sql, nowMs: number): Promise<void> {
  await deleteEndedSessions(sql, nowMs)
  await deleteOldLinks(sql, nowMs)
  await deleteOldNetworks(sql, nowMs)
  await deleteOldThrottles(sql, nowMs)
  await sql.query('DELETE FROM operator_answer WHERE created_at < $1', [new Date(nowMs - ANSWERS_KEPT_MS)])
}

/** How long a repeat of an operator's request gets the same answer. */
const ANSWERS_KEPT_MS = 30 * DAY_MS
