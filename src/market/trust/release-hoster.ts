import { type Pool, transaction } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import { commandLineActor } from '../marketplace/change-hoster-state.ts'
import { type HosterRef, lockHoster } from '../supply/hosters/hosters.ts'
import { answerAppeal } from './appeals.ts'
import { endQuarantine } from './quarantine-hoster.ts'

/**
 * Ends the quarantine of a hoster from the command line, and answers its appeal. `hoster` is an id or a name. Throws SupplyError
 * `unknown_hoster`, or `invalid_value` for a hoster in a state that does not allow it.
 */
export function releaseHoster(pool: Pool, hoster: string, reason: string): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await lockHoster(sql, hoster)
    const nowMs = Date.now()
    await endQuarantine(sql, found.hosterId, { by: commandLineActor, reason, nowMs }).catch((error: unknown) => {
      throw error instanceof ApiError ? new SupplyError('invalid_value', error.message) : error
    })
    await answerAppeal(sql, found.hosterId, { answer: reason, personId: null, address: null })
    return found
  })
}
