import type { Sql } from '../../../base/db/pool.ts'
import { splitOfferId } from '../../../base/domain/offer.ts'
import { readServerHealth } from './server-health.ts'

/**
 * Notes when servers began to fail most requests, and when that ended, for the status page. Ejections are noted by the
 * nodes (`writeReport`), and a server that is ejected is not noted twice.
 */
export async function noteFailingServers(sql: Sql, nowMs: number): Promise<void> {
  const health = await readServerHealth(sql, nowMs)
  const failing = [...health].filter(([, { state }]) => state === 'failing').map(([offerId]) => splitOfferId(offerId))
  const away = [...health].filter(([, { state }]) => state === 'ejected').map(([offerId]) => splitOfferId(offerId))
  const both = [...failing, ...away]
  const now = new Date(nowMs)
  await sql.query(
    `UPDATE server_incident SET ended_at = greatest($1, began_at)
      WHERE kind = 'failing' AND ended_at IS NULL
        AND (endpoint_id, model_id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))`,
    [now, both.map(each => each.endpointId), both.map(each => each.modelId)],
  )
  if (failing.length === 0) return
  // A server that comes and goes has one incident, as with ejections.
  await sql.query(
    `WITH failing AS (SELECT * FROM unnest($2::text[], $3::text[]) AS f (endpoint_id, model_id)),
     continued AS (
       UPDATE server_incident SET ended_at = NULL WHERE incident_id IN (
         SELECT DISTINCT ON (endpoint_id, model_id) incident_id FROM server_incident JOIN failing USING (endpoint_id, model_id)
          WHERE kind = 'failing' AND (ended_at IS NULL OR ended_at > $1::timestamptz - interval '5 minutes')
          ORDER BY endpoint_id, model_id, began_at DESC)
       RETURNING endpoint_id, model_id
     )
     INSERT INTO server_incident (node_id, endpoint_id, model_id, kind, began_at)
     SELECT NULL, endpoint_id, model_id, 'failing', $1 FROM failing f
      WHERE NOT EXISTS (SELECT FROM continued c WHERE (c.endpoint_id, c.model_id) = (f.endpoint_id, f.model_id))
        AND NOT EXISTS (SELECT FROM server_incident i
          WHERE (i.endpoint_id, i.model_id) = (f.endpoint_id, f.model_id) AND i.kind <> 'failing' AND i.ended_at IS NULL)
     ON CONFLICT DO NOTHING`,
    [now, failing.map(each => each.endpointId), failing.map(each => each.modelId)],
  )
}
