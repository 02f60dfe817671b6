import type { Sql } from '../../base/db/pool.ts'
import type { Alarm } from '../../wire/api/operator/overview.ts'

/** An alarm that has begun, has become worse, or is over. */
export interface AlarmChange {
  readonly key: string
  readonly kind: string
  readonly severity: 'danger' | 'warn'
  readonly message: string
  readonly beganAt: Date
  readonly isOver: boolean
}

/** An alarm is over when it was not found for this time, so that one that comes and goes is one. */
const QUIET_MS = 120_000
const KEPT_DAYS = 30

/** Writes down the alarms of now and returns what has changed since the last call, on any node. Run it in a transaction. */
export async function noteAlarms(sql: Sql, alarms: readonly Alarm[], nowMs: number): Promise<AlarmChange[]> {
  const now = new Date(nowMs)
  // A server that is ejected and tried again is one trouble.
  const byKey = new Map(alarms.map(alarm => [keyOf(alarm), alarm]))
  const found = [...byKey].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const { rows: begun } = await sql.query<AlarmChange>(
    `INSERT INTO alarm AS a (alarm_key, kind, severity, message, began_at, seen_at)
     SELECT *, $5::timestamptz, $5 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
     ON CONFLICT (alarm_key) DO UPDATE SET kind = excluded.kind, severity = excluded.severity, message = excluded.message,
       began_at = CASE WHEN a.ended_at IS NULL THEN a.began_at ELSE excluded.began_at END, seen_at = excluded.seen_at, ended_at = NULL
      WHERE a.ended_at IS NOT NULL OR (a.severity = 'warn' AND excluded.severity = 'danger')
     RETURNING ${COLUMNS}, false AS "isOver"`,
    [
      found.map(([key]) => key),
      found.map(([, { kind }]) => kind),
      found.map(([, { severity }]) => severity),
      found.map(([, { message }]) => message),
      now,
    ],
  )
  await sql.query('UPDATE alarm SET seen_at = $2 WHERE alarm_key = ANY ($1) AND seen_at < $2', [
    found.map(([key]) => key),
    now,
  ])
  const { rows: over } = await sql.query<AlarmChange>(
    `UPDATE alarm SET ended_at = $1 WHERE ended_at IS NULL AND seen_at < $2 RETURNING ${COLUMNS}, true AS "isOver"`,
    [now, new Date(nowMs - QUIET_MS)],
  )
  await sql.query("DELETE FROM alarm WHERE ended_at < $1::timestamptz - $2 * interval '1 day'", [now, KEPT_DAYS])
  return [...begun, ...over]
}

const COLUMNS = 'alarm_key AS key, kind, severity, message, began_at AS "beganAt"'

function keyOf({ kind, key }: Alarm): string {
  return kind === 'server_ejected' || kind === 'server_failing' ? key.replace(/^server_\w+/, 'server') : key
}
