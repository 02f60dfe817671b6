import type { Pool } from '../db/pool.ts'
import { refuseOutage } from '../db/refuse-outage.ts'
import { listStateChanges, type OwnHoster, type PastStateChange, showHoster } from './show-hoster.ts'

/**
 * What the programs and people of a hoster read and change. All methods reject with ApiError: `database_unavailable`,
 * `hoster_not_found`, and what they name.
 */
export interface HosterDesk {
  show(hosterId: string): Promise<{ hoster: OwnHoster; changes: PastStateChange[] }>
}

export function createHosterDesk({ pool }: { readonly pool: Pool }): HosterDesk {
  return {
    async show(hosterId) {
      const [hoster, changes] = await Promise.all([showHoster(pool, hosterId), listStateChanges(pool, hosterId)]).catch(
        refuseOutage,
      )
      return { hoster, changes }
    },
  }
}
