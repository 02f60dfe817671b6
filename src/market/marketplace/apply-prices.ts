import { bumpControlVersion } from '../../base/db/control-version.ts'
import { type Pool, transaction } from '../../base/db/pool.ts'
import { replacePrice } from '../supply/hosters/set-hoster-price.ts'
import { changeWaiting, listOffered, lockDuePrice } from './manifests.ts'
import { needsProbes } from './price-rules.ts'

/**
 * Applies the prices that have waited for their notice, and returns their number. A model that also does something else
 * then waits for its probes. The transaction locks the row and ends it, so each price is applied once, however many
 * nodes do this at a time.
 */
export async function applyDuePrices(pool: Pool, nowMs: number): Promise<number> {
  for (let applied = 0; ; applied++) {
    const isDone = await transaction(pool, async sql => {
      const due = await lockDuePrice(sql, nowMs)
      if (due === undefined) return true
      const offered = await listOffered(sql, due.endpointId, nowMs)
      const live = offered.find(({ model }) => model.modelId === due.model.modelId)?.model
      if (needsProbes(live, due.model)) {
        await changeWaiting(sql, due.changeId, 'probing')
        return false
      }
      await replacePrice(sql, due.endpointId, due.model)
      await changeWaiting(sql, due.changeId, 'applied')
      await bumpControlVersion(sql, 'supply')
      return false
    })
    if (isDone) return applied
  }
}
