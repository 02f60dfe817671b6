import type { Sql } from '../../../base/db/pool.ts'
import { combineLearned } from '../breakers/learned-offer.ts'
import { deleteOldLearned, hasNewsForSnapshot, readLearned, writeSnapshot } from './learned-rows.ts'

/** No node has this id, so the rows of all nodes are read. */
const NO_NODE = '00000000-0000-0000-0000-000000000000'

/** Writes what all nodes have learned to the snapshot, if any has learned something, and removes old rows. */
export async function snapshotLearned(sql: Sql): Promise<void> {
  await deleteOldLearned(sql)
  if (!(await hasNewsForSnapshot(sql))) return
  const { rows } = await readLearned(sql, NO_NODE, null)
  const offers = new Map(
    [...Map.groupBy(rows, ({ offerId }) => offerId)].map(([offerId, reports]) => {
      const ageMs = Math.min(...reports.map(report => report.ageMs))
      const offer = combineLearned(reports.map(report => ({ offer: report.offer, ageMs: report.ageMs - ageMs })))
      return [offerId, { offer, ageMs }]
    }),
  )
  if (offers.size > 0) await writeSnapshot(sql, offers)
}
