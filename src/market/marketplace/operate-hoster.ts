import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import type { HosterState } from '../../base/domain/hoster-state.ts'
import { insertHoster, type NewHoster, type NewHosterOptions } from '../supply/hosters/add-hoster.ts'
import { type HosterRef, lockHoster } from '../supply/hosters/hosters.ts'
import { changeHosterState, commandLineActor, noteStateChange } from './change-hoster-state.ts'

// What the operator does on the command line. The audit log records each action.

/**
 * Adds a hoster that the operator vouches for: it needs no verification, only prices and `activateHoster`. Throws like
 * `insertHoster`.
 */
export function addHosterByOperator(
  pool: Pool,
  hoster: NewHoster,
  options: NewHosterOptions,
): Promise<{ hosterId: string; endpointId: string }> {
  return transaction(pool, async sql => {
    const added = await insertHoster(sql, hoster, options)
    const { hosterId } = added
    await noteStateChange(sql, { ...commandLineActor, hosterId, from: null, to: 'pending', reason: ADDED })
    const detail = { hoster_id: hosterId, base_url: hoster.baseUrl, reason: ADDED }
    await noteAction(sql, { action: 'hoster.applied', personId: null, subject: hoster.name, detail, address: null })
    return added
  })
}

const ADDED = 'The operator added it.'

/**
 * Changes the state of a hoster, an id or a name. Nothing happens when it has the state already. Throws SupplyError
 * `unknown_hoster`, and ApiError `hoster_state_refused`.
 */
export function operateHoster(
  pool: Pool,
  hoster: string,
  { to, reason }: { to: HosterState; reason: string },
): Promise<HosterRef & { from: HosterState }> {
  return transaction(pool, async sql => {
    const found = await lockHoster(sql, hoster)
    const from = await stateOf(sql, found.hosterId)
    if (from !== to) await changeHosterState(sql, { ...commandLineActor, hosterId: found.hosterId, to, reason })
    return { ...found, from }
  })
}

/**
 * Lets a hoster receive requests for the models that have a price; returns their number as `pricedModels`. Throws like
 * `operateHoster`.
 */
export async function activateHoster(
  pool: Pool,
  hoster: string,
  reason = sayOfHoster('hoster.activated').text,
): Promise<HosterRef & { pricedModels: number }> {
  const { hosterId, name } = await operateHoster(pool, hoster, { to: 'active', reason })
  const { models } = await queryRow<{ models: number }>(
    pool,
    `SELECT count(*)::integer AS models FROM hoster_price JOIN hoster_endpoint USING (endpoint_id)
     WHERE hoster_id = $1 AND valid_until IS NULL`,
    [hosterId],
  )
  return { hosterId, name, pricedModels: models }
}

/** Stops new requests to a hoster; running ones finish and are paid. Throws like `operateHoster`. */
export function suspendHoster(
  pool: Pool,
  hoster: string,
  reason = sayOfHoster('hoster.suspended').text,
): Promise<HosterRef> {
  return operateHoster(pool, hoster, { to: 'suspended', reason })
}

async function stateOf(sql: Sql, hosterId: string): Promise<HosterState> {
  const { state } = await queryRow<{ state: HosterState }>(sql, 'SELECT state FROM hoster WHERE hoster_id = $1', [
    hosterId,
  ])
  return state
}
