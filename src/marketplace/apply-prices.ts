import { bumpControlVersion } from '../db/control-version.ts'
import { type Pool, transaction } from '../db/pool.ts'
import { replacePrice } from '../supply/hosters/set-hoster-price.ts'
import { endScheduled, lockDuePrice } from './manifests.ts'

/**
 * Applies the prices that have waited for their notice. Each is applied once, however many nodes do this at a time: the transaction locks the row
 * and ends it. Returns how many there were.
 */
export async function applyDuePrices(pool: Pool, nowMs: number): Promise<number> {
  for (let applied = 0; ; applied++) {
    const isDone = await transaction(pool, async sql => {
      const due = await lockDuePrice(sql, nowMs)
      if (due === undefined) return true
      await replacePrice(sql, due.endpointId, due.model)
      await endScheduled(sql, due.changeId, 'applied')
      await bumpControlVersion(sql, 'supply')
      return false
    })
    if (isDone) return applied
  }
}
