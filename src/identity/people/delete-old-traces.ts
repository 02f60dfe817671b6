import type { Sql } from '../../base/db/pool.ts'
import { deleteOldLinks } from './links.ts'
import { deleteOldNetworks } from './networks.ts'
import { deleteEndedSessions } from './sessions.ts'
import { deleteOldThrottles } from './sign-in-throttle.ts'

/** Deletes what no longer matters: ended sessions, unused links, old networks and forgotten failures. */
export async function deleteOldTraces(sql: Sql, nowMs: number): Promise<void> {
  await deleteEndedSessions(sql, nowMs)
  await deleteOldLinks(sql, nowMs)
  await deleteOldNetworks(sql, nowMs)
  await deleteOldThrottles(sql, nowMs)
}
