import type { Sql } from '../../base/db/pool.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'

/** What changes while a page of a customer is open. Equal states have equal text. */
export interface StoredState {
  /** Credit less charges, in nano-USD as text. */
  readonly balanceNanos: string
  /** The highest request id; null without requests. */
  readonly newestRequestId: string | null
  /** Requests that began today (UTC) and are settled. */
  readonly requestsToday: number
  /** By topic: incremented with each change. A topic without a change is missing. */
  readonly versions: Readonly<Record<string, number>>
}

/** A session that still may read the customer. */
export interface WatchingSession {
  readonly sessionId: string
  readonly customerId: string
  readonly installationRole: InstallationRole | null
  readonly lastSeenAt: Date
  readonly expiresAt: Date
}

export interface LiveStates {
  readonly states: ReadonlyMap<string, StoredState>
  /** By `${sessionId} ${customerId}`. A missing session has ended, or has lost the right. */
  readonly sessions: ReadonlyMap<string, WatchingSession>
}

/**
 * Reads the state of these customers and of the sessions that watch them, all in one statement. It reads a few rows for
 * each customer, however many requests there are.
 *
 * @param watches pairs of a session and the customer that it watches
 */
export async function readLiveStates(
  sql: Sql,
  watches: readonly { readonly sessionId: string; readonly customerId: string }[],
): Promise<LiveStates> {
  const customerIds = [...new Set(watches.map(({ customerId }) => customerId))]
  const { rows } = await sql.query<StateRow | SessionRow>(READ_LIVE, [
    customerIds,
    watches.map(({ sessionId }) => sessionId),
    watches.map(({ customerId }) => customerId),
  ])
  const states = new Map<string, StoredState>()
  const sessions = new Map<string, WatchingSession>()
  for (const row of rows) {
    if (row.state !== null) states.set(row.customerId, row.state)
    else sessions.set(`${row.sessionId} ${row.customerId}`, row)
  }
  return { states, sessions }
}

interface StateRow {
  readonly customerId: string
  readonly state: StoredState
}

interface SessionRow extends WatchingSession {
  readonly state: null
}

const READ_LIVE = {
  name: 'live_states',
  text: `
SELECT c.id AS "customerId", jsonb_build_object(
    'balanceNanos', (coalesce(b.posted_nanos, 0) - coalesce(l.settled, 0))::text,
    'newestRequestId', n.request_id, 'requestsToday', coalesce(r.requests, 0), 'versions', coalesce(v.versions, '{}')
  ) AS state, NULL::uuid AS "sessionId", NULL AS "installationRole", NULL::timestamptz AS "lastSeenAt", NULL::timestamptz AS "expiresAt"
FROM unnest($1::uuid[]) c(id)
LEFT JOIN balance b ON b.customer_id = c.id
LEFT JOIN LATERAL (SELECT sum(settled_nanos)::bigint AS settled FROM lease WHERE customer_id = c.id AND slots IS NOT NULL) l ON true
LEFT JOIN LATERAL (SELECT request_id FROM usage_event WHERE customer_id = c.id ORDER BY request_id DESC LIMIT 1) n ON true
LEFT JOIN LATERAL (
  SELECT sum(requests)::bigint AS requests FROM usage_hour WHERE customer_id = c.id AND hour >= date_trunc('day', now(), 'UTC')
) r ON true
LEFT JOIN LATERAL (SELECT jsonb_object_agg(topic, version) AS versions FROM customer_change WHERE customer_id = c.id) v ON true
UNION ALL
SELECT w.customer_id, NULL, s.session_id, p.installation_role, s.last_seen_at, s.expires_at
FROM unnest($2::uuid[], $3::uuid[]) w(session_id, customer_id)
JOIN person_session s ON s.session_id = w.session_id
JOIN person p ON p.person_id = s.person_id AND p.disabled_at IS NULL
JOIN customer k ON k.customer_id = w.customer_id AND k.deleted_at IS NULL
LEFT JOIN membership m ON m.customer_id = w.customer_id AND m.person_id = s.person_id
WHERE m.role IS NOT NULL OR p.installation_role IS NOT NULL`,
}
