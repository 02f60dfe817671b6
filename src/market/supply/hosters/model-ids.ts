import { bumpControlVersion } from '../../../base/db/control-version.ts'
import type { Sql } from '../../../base/db/pool.ts'
import { openWeightsOf } from './open-models.ts'

// Which model ids hosters may sell. One decision is good for all hosters; without one, an id waits.

export interface ModelIdDecision {
  readonly modelId: string
  readonly state: 'approved' | 'refused'
  readonly reason: string
  /** Null: the command line. */
  readonly personId: string | null
}

/** An id that hosters name and may not sell. */
export interface UnapprovedId {
  readonly modelId: string
  readonly state: 'waiting' | 'refused'
  /** Why it was refused. */
  readonly reason: string | null
  readonly decidedAt: Date | null
  readonly hosters: readonly { readonly id: string; readonly name: string; readonly isActive: boolean }[]
}

/** Stores a decision in place of an earlier one. Nodes notice within two seconds. */
export async function decideModelId(sql: Sql, { modelId, state, reason, personId }: ModelIdDecision): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_model (model_id, state, reason, person_id) VALUES ($1, $2, $3, $4)
     ON CONFLICT (model_id) DO UPDATE SET state = excluded.state, reason = excluded.reason, person_id = excluded.person_id, decided_at = now()`,
    [modelId, state, reason, personId],
  )
  await bumpControlVersion(sql, 'supply')
}

/**
 * Approves the ids that need no decision: those of the gateway's own servers, which audits compare with these, and
 * those of known open weights. Earlier decisions stay.
 *
 * @param isOwn whether a configured or detected server or cloud has the id
 */
export async function approveKnownIds(
  sql: Sql,
  modelIds: readonly string[],
  isOwn: (modelId: string) => boolean,
): Promise<void> {
  // In one order, so that two manifests with the same ids do not wait for each other.
  for (const modelId of modelIds.toSorted()) {
    const weights = openWeightsOf(modelId)
    if (isOwn(modelId)) await approveOnce(sql, [modelId], 'A server of the gateway has this id.')
    else if (weights !== undefined) await approveOnce(sql, [modelId], `Open weights: ${weights}.`)
  }
}

/** Approves the ids that a hoster offers, and returns those that were new. Earlier decisions stay. */
export async function approveOfferedIds(sql: Sql, hosterId: string, personId: string | null): Promise<string[]> {
  const { rows } = await sql.query<{ model_id: string }>(
    `SELECT model_id FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) WHERE hoster_id = $1 AND valid_until IS NULL`,
    [hosterId],
  )
  const ids = rows.map(row => row.model_id)
  return approveOnce(sql, ids, 'The operator approved a hoster with this id.', personId)
}

/** Approves ids that nobody has decided about, and returns them. Nodes notice within two seconds. */
export async function approveOnce(
  sql: Sql,
  modelIds: readonly string[],
  reason: string,
  personId: string | null = null,
): Promise<string[]> {
  const { rows } = await sql.query<{ model_id: string }>(
    `INSERT INTO hoster_model (model_id, state, reason, person_id) SELECT id, 'approved', $2, $3 FROM unnest($1::text[]) AS id ORDER BY id
     ON CONFLICT (model_id) DO NOTHING RETURNING model_id`,
    [modelIds, reason, personId],
  )
  if (rows.length > 0) await bumpControlVersion(sql, 'supply')
  return rows.map(row => row.model_id)
}

/** Returns the ids that hosters name and may not sell, those that wait first. */
export async function listUnapprovedIds(sql: Sql): Promise<UnapprovedId[]> {
  const { rows } = await sql.query<UnapprovedId>(
    `WITH named AS (
       SELECT model_id, endpoint_id FROM hoster_price WHERE valid_until IS NULL
       UNION SELECT model_id, endpoint_id FROM hoster_price_change WHERE state IN ('scheduled', 'probing'))
     SELECT model_id AS "modelId", coalesce(m.state, 'waiting') AS state, m.reason, m.decided_at AS "decidedAt",
       jsonb_agg(jsonb_build_object('id', h.hoster_id, 'name', h.name, 'isActive', h.state = 'active') ORDER BY h.name) AS hosters
       FROM named JOIN hoster_endpoint USING (endpoint_id) JOIN hoster h USING (hoster_id) LEFT JOIN hoster_model m USING (model_id)
      WHERE h.state <> 'retired' AND m.state IS DISTINCT FROM 'approved'
      GROUP BY model_id, m.state, m.reason, m.decided_at ORDER BY m.decided_at DESC NULLS FIRST, model_id`,
  )
  return rows
}
