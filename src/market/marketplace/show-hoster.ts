import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { HosterActor, HosterState } from '../../base/domain/hoster-state.ts'
import type { HosterTransport } from '../supply/hosters/transport.ts'

/** A hoster as its own people and programs see it. */
export interface OwnHoster {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  /** Its part of each charge, in basis points. */
  readonly shareBps: number
  readonly createdAt: Date
  readonly activeSince: Date | null
  readonly endpointId: string
  readonly transport: HosterTransport
  readonly baseUrl: string
  readonly challengePassedAt: Date | null
}

/** Reads a hoster. Throws `hoster_not_found`. */
export async function showHoster(sql: Sql, hosterId: string): Promise<OwnHoster> {
  const { rows } = await sql.query<OwnHoster>(
    `SELECT hoster_id AS "hosterId", name, state, share_bps AS "shareBps", h.created_at AS "createdAt",
            active_since AS "activeSince", endpoint_id AS "endpointId", transport, base_url AS "baseUrl",
            challenge_passed_at AS "challengePassedAt"
       FROM hoster h JOIN hoster_endpoint e USING (hoster_id)
      WHERE hoster_id = $1 ORDER BY e.created_at, endpoint_id LIMIT 1`,
    [hosterId],
  )
  if (rows[0] === undefined) throw new ApiError('hoster_not_found')
  return rows[0]
}

/** One change of the state. */
export interface PastStateChange {
  /** Null: the hoster was new. */
  readonly from: HosterState | null
  readonly to: HosterState
  readonly by: HosterActor
  readonly reason: string
  readonly at: Date
}

/** Returns the last 100 changes of a hoster's state, the newest first. */
export async function listStateChanges(sql: Sql, hosterId: string): Promise<PastStateChange[]> {
  const { rows } = await sql.query<PastStateChange>(
    `SELECT from_state AS "from", to_state AS "to", actor AS "by", reason, at
       FROM hoster_state_change WHERE hoster_id = $1 ORDER BY change_id DESC LIMIT 100`,
    [hosterId],
  )
  return rows
}
