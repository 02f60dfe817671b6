import type { Sql } from '../../../base/db/pool.ts'
import { HOUR_MS } from '../../../base/domain/durations.ts'
import { HEARTBEAT_MS } from '../../../money/ledger/ledger-store.ts'
import type { ClaimStore } from './claim-store.ts'

const STORED_FOR = `interval '24 hours'`
/**
 * Added to the longest answer time, for a client that is still reading. A claim older than the sum was
 * abandoned.
 */
const ABANDONED_AFTER_MS = HOUR_MS
/** The heartbeats of a node, given as an SQL expression. A dead node has -1. */
const heartbeatsOf = (nodeId: string) =>
  `coalesce((SELECT h.heartbeats FROM node_heartbeat h WHERE h.node_id = ${nodeId}), -1)`
/** The longest time from the commit of a charge until its claim is finished. */
const FINISHED_WITHIN = `interval '10 s'`

/**
 * Implements ClaimStore with the table of sql/migrations/0003_idempotency.sql. `longestAnswerMs`: returns the
 * longest total time limit of any endpoint.
 */
export function createPostgresClaimStore(sql: Sql, longestAnswerMs: () => number): ClaimStore {
  return {
    async take({ customerId, key, bodyHash, requestId }, nodeId) {
      const { rowCount } = await sql.query(
        `INSERT INTO idempotency AS i (customer_id, key, body_hash, request_id, node_id, heartbeats, expires_at)
         VALUES ($1, $2, $3, $4, $5, ${heartbeatsOf('$5')}, now() + ${STORED_FOR})
         ON CONFLICT (customer_id, key) DO UPDATE
           SET body_hash = excluded.body_hash, request_id = excluded.request_id, node_id = excluded.node_id,
             heartbeats = excluded.heartbeats, state = 'running', cost_nanos = NULL, answer_sealed = NULL,
             claimed_at = now(), expires_at = excluded.expires_at
           WHERE i.expires_at <= now() AND (i.state = 'done' OR ${heartbeatsOf('i.node_id')} < 0)`,
        [customerId, key, bodyHash, requestId, nodeId],
      )
      return rowCount === 1
    },
    async find({ customerId, key, bodyHash }) {
      const { rows } = await sql.query<ClaimRow>(
        `SELECT i.request_id, i.node_id, i.body_hash = $3 AS is_same_body, i.state = 'done' AS is_done, i.cost_nanos, i.answer_sealed,
           coalesce(h.heartbeats <= i.heartbeats + $4
             AND coalesce(u.started_at + u.latency_ms * interval '1 ms' > now() - ${FINISHED_WITHIN}, true), false) AS is_running,
           u.outcome, u.success, u.cost_nanos AS charged_nanos
         FROM idempotency i
         LEFT JOIN node_heartbeat h ON h.node_id = i.node_id
         LEFT JOIN usage_event u ON u.customer_id = i.customer_id AND u.request_id = i.request_id
         WHERE i.customer_id = $1 AND i.key = $2`,
        // A node sends at most one heartbeat in HEARTBEAT_MS, so the claim is at least this old.
        [customerId, key, bodyHash, Math.ceil((longestAnswerMs() + ABANDONED_AFTER_MS) / HEARTBEAT_MS)],
      )
      const row = rows[0]
      if (row === undefined) return undefined
      return {
        requestId: row.request_id,
        nodeId: row.node_id,
        isSameBody: row.is_same_body,
        done: row.is_done ? { costNanos: row.cost_nanos, answerSealed: row.answer_sealed } : null,
        isRunning: row.is_running,
        row: row.outcome === null ? null : { outcome: row.outcome, success: row.success, costNanos: row.charged_nanos },
      }
    },
    async takeOver({ customerId, key, requestId }, earlierRequestId, nodeId) {
      const { rowCount } = await sql.query(
        `UPDATE idempotency SET request_id = $4, node_id = $5, heartbeats = ${heartbeatsOf('$5')},
           claimed_at = now(), expires_at = now() + ${STORED_FOR}
         WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
        [customerId, key, earlierRequestId, requestId, nodeId],
      )
      return rowCount === 1
    },
    async finish({ customerId, key, requestId }, { costNanos, answerSealed }) {
      await sql.query(
        `UPDATE idempotency SET state = 'done', cost_nanos = $4, answer_sealed = $5
         WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
        [customerId, key, requestId, costNanos, answerSealed],
      )
    },
    async release({ customerId, key, requestId }) {
      await sql.query(
        `DELETE FROM idempotency WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
        [customerId, key, requestId],
      )
    },
  }
}

interface StoredClaim {
  readonly request_id: string
  readonly node_id: string
  readonly is_same_body: boolean
  readonly is_running: boolean
  readonly answer_sealed: Buffer | null
}

type ClaimRow = StoredClaim &
  ({ readonly is_done: true; readonly cost_nanos: bigint } | { readonly is_done: false; readonly cost_nanos: null }) &
  // The usage row of the request, if it is settled.
  (
    | { readonly outcome: string; readonly success: boolean; readonly charged_nanos: bigint }
    | { readonly outcome: null; readonly success: null; readonly charged_nanos: null }
  )

const BATCH = 1_000

/**
 * Deletes expired Idempotency-Keys and their stored answers, in small batches of one transaction each. Keeps the key
 * of a request that a live node has not finished, whatever PostgreSQL's clock says. Returns how many were deleted.
 */
export async function deleteExpiredClaims(sql: Sql): Promise<number> {
  for (let deleted = 0; ; ) {
    const { rowCount } = await sql.query(
      `DELETE FROM idempotency WHERE (customer_id, key) IN (
         SELECT customer_id, key FROM idempotency i WHERE expires_at <= now()
           AND (state = 'done' OR NOT EXISTS (SELECT FROM node_heartbeat h WHERE h.node_id = i.node_id))
         LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
    )
    deleted += rowCount ?? 0
    if ((rowCount ?? 0) < BATCH) return deleted
  }
}
