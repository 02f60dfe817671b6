import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS, HOUR_MS } from '../../../base/domain/durations.ts'
import type { OfferState } from '../../../base/domain/health.ts'
import type { AttemptCounts, LastError } from '../breakers/attempt-tally.ts'

/** An offer as a node reports it: the elements of node_report.servers. */
export interface ReportedServer {
  readonly endpointId: string
  readonly modelId: string
  readonly state: OfferState
  readonly inFlight: number
  /** The first-token times of the last answers on this node, whole ms. */
  readonly recentMs: readonly number[]
  /** The customers that it is kept away from while it serves others. */
  readonly customersKeptAway: number
}

/** New attempts at an offer since the last report. */
export interface CountedAttempts {
  readonly endpointId: string
  readonly modelId: string
  readonly answered: number
  readonly failed: number
  readonly busy: number
  /** Of these, answers since the last failure, and failures since the last answer. */
  readonly answeredInRow: number
  readonly failedInRow: number
  /** Null: no new one. */
  readonly lastError: LastError | null
  /** The new ones that are kept with their text. */
  readonly errors: readonly LastError[]
  /** What customers were charged for the answers. */
  readonly costNanos: bigint
  /** What the operator is charged for them, as far as that is known. */
  readonly ownCostNanos: bigint
}

/** A change of the breaker of an offer. */
export interface BreakerChange {
  readonly endpointId: string
  readonly modelId: string
  readonly event: 'ejected' | 'restored' | 'credential_rejected'
  readonly at: Date
}

/** The models of one agent that a report has at most. */
export const REPORTED_MODELS_MAX = 50

/** An agent of a hoster that is connected to a node: the elements of node_report.agents. */
export interface ReportedAgent {
  /** An agent with connections to several nodes has the same id on each. */
  readonly agentId: string
  readonly endpointId: string
  readonly hosterId: string
  readonly keyId: string
  /** The version of its program. Empty before it announced its models. */
  readonly version: string
  readonly state: 'open' | 'paused' | 'draining'
  /** Why it takes no requests; null if it does, or gave no reason. */
  readonly reason: string | null
  readonly slots: number
  readonly freeSlots: number
  /** The most places of one model. */
  readonly slotsPerModel: number
  /** The ids of the models at its server. */
  readonly models: readonly string[]
  /** Unix ms. */
  readonly sinceMs: number
}

/** The space on a disk of a node: the elements of node_report.disks. */
export interface ReportedDisk {
  readonly host: string
  readonly what: 'data' | 'journal'
  readonly freeBytes: number
  readonly sizeBytes: number
}

export interface NodeReport {
  readonly nodeId: string
  readonly version: string
  readonly servers: readonly ReportedServer[]
  readonly agents: readonly ReportedAgent[]
  readonly disks: readonly ReportedDisk[]
  /** The marks of its master keys. */
  readonly masterKeys: readonly string[]
  readonly attempts: readonly CountedAttempts[]
  /** In the order in which they happened. */
  readonly changes: readonly BreakerChange[]
}

/** Writes what a node has seen of its servers. Run it in a transaction. */
export async function writeReport(
  sql: Sql,
  { nodeId, version, servers, agents, disks, masterKeys, attempts, changes }: NodeReport,
  now: Date,
): Promise<void> {
  // Nodes that report at once lock the rows in the same order.
  const sorted = attempts.toSorted((a, b) => compare(a.endpointId, b.endpointId) || compare(a.modelId, b.modelId))
  if (sorted.length > 0) await addAttempts(sql, sorted, now)
  await addErrors(sql, sorted)
  for (const change of changes) await writeChange(sql, nodeId, change)
  await sql.query(
    `INSERT INTO node_report (node_id, at, version, servers, agents, disks, master_keys) VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (node_id) DO UPDATE SET at = excluded.at, servers = excluded.servers, agents = excluded.agents,
       disks = excluded.disks, master_keys = excluded.master_keys`,
    [nodeId, now, version, ...[servers, agents, disks, masterKeys].map(toJson)],
  )
}

/** PostgreSQL refuses JSON with half of a surrogate pair. One text of a server must not lose the report of all of them. */
function toJson(value: object): string {
  return JSON.stringify(value, (_, each) => (typeof each === 'string' ? each.toWellFormed() : each))
}

async function addAttempts(sql: Sql, attempts: readonly CountedAttempts[], now: Date): Promise<void> {
  const columns = (rows: readonly CountedAttempts[]) => [
    rows.map(({ endpointId }) => endpointId),
    rows.map(({ modelId }) => modelId),
    rows.map(({ answered }) => answered),
    rows.map(({ failed }) => failed),
    rows.map(({ busy }) => busy),
  ]
  await sql.query(
    `INSERT INTO server_day AS d (day, endpoint_id, model_id, answered, failed, busy, cost_nanos, own_cost_nanos)
     SELECT ($1::timestamptz AT TIME ZONE 'UTC')::date, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
     ON CONFLICT (day, endpoint_id, model_id) DO UPDATE SET answered = d.answered + excluded.answered, failed = d.failed + excluded.failed,
       busy = d.busy + excluded.busy, cost_nanos = d.cost_nanos + excluded.cost_nanos,
       own_cost_nanos = d.own_cost_nanos + excluded.own_cost_nanos`,
    [
      now,
      ...columns(attempts),
      attempts.map(({ costNanos }) => costNanos),
      attempts.map(({ ownCostNanos }) => ownCostNanos),
    ],
  )
  // A charge comes after its attempt, so some reports have nothing but charges.
  const tried = attempts.filter(({ answered, failed, busy }) => answered + failed + busy > 0)
  if (tried.length === 0) return
  await sql.query(
    `INSERT INTO server_minute AS m (minute, endpoint_id, model_id, answered, failed, busy)
     SELECT date_trunc('minute', $1::timestamptz), * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
     ON CONFLICT (minute, endpoint_id, model_id) DO UPDATE SET
       answered = m.answered + excluded.answered, failed = m.failed + excluded.failed, busy = m.busy + excluded.busy`,
    [now, ...columns(tried)],
  )
  await sql.query(
    `WITH tried AS (
       SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::jsonb[])
         AS t (endpoint_id, model_id, answered, failed, busy, answered_in_row, failed_in_row, last_error)
     ), known AS (
       SELECT h.* FROM server_health h JOIN tried USING (endpoint_id, model_id) ORDER BY endpoint_id, model_id FOR UPDATE OF h
     )
     INSERT INTO server_health AS h (endpoint_id, model_id, attempted_at, answered_in_row, failed_in_row, last_error)
     SELECT t.endpoint_id, t.model_id, $1,
       t.answered_in_row + CASE WHEN t.failed = 0 THEN coalesce(k.answered_in_row, 0) ELSE 0 END,
       t.failed_in_row + CASE WHEN t.answered = 0 THEN coalesce(k.failed_in_row, 0) ELSE 0 END,
       coalesce(t.last_error, k.last_error)
       FROM tried t LEFT JOIN known k USING (endpoint_id, model_id)
     ON CONFLICT (endpoint_id, model_id) DO UPDATE SET attempted_at = greatest(h.attempted_at, excluded.attempted_at),
       answered_in_row = excluded.answered_in_row, failed_in_row = excluded.failed_in_row, last_error = excluded.last_error`,
    [
      now,
      ...columns(tried),
      tried.map(({ answeredInRow }) => answeredInRow),
      tried.map(({ failedInRow }) => failedInRow),
      tried.map(({ lastError }) => (lastError === null ? null : toJson(lastError))),
    ],
  )
}

async function addErrors(sql: Sql, attempts: readonly CountedAttempts[]): Promise<void> {
  const rows = attempts.flatMap(({ endpointId, modelId, errors }) =>
    errors.map(error => ({ endpointId, modelId, ...error })),
  )
  if (rows.length === 0) return
  await sql.query(
    `INSERT INTO server_error (at, endpoint_id, model_id, outcome, status, text, request_id, customer_id)
     SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::uuid[], $8::uuid[])`,
    [
      rows.map(({ atMs }) => new Date(atMs)),
      rows.map(({ endpointId }) => endpointId),
      rows.map(({ modelId }) => modelId),
      rows.map(({ outcome }) => outcome),
      rows.map(({ status }) => status),
      rows.map(({ text }) => text),
      rows.map(({ requestId }) => requestId),
      rows.map(({ customerId }) => customerId),
    ],
  )
}

/**
 * Returns the attempts since a report. Of runs of answers or failures that began before it, only the new part counts.
 *
 * @param before what was reported
 */
export function attemptsSince(
  before: AttemptCounts,
  now: AttemptCounts,
): Omit<CountedAttempts, 'endpointId' | 'modelId' | 'costNanos' | 'ownCostNanos'> {
  const answered = now.answered - before.answered
  const failed = now.failed - before.failed
  return {
    answered,
    failed,
    busy: now.busy - before.busy,
    answeredInRow: failed > 0 ? now.answeredInRow : answered,
    failedInRow: answered > 0 ? now.failedInRow : failed,
    lastError: now.lastError === before.lastError ? null : now.lastError,
    errors: now.errors.filter(error => !before.errors.includes(error)),
  }
}

async function writeChange(sql: Sql, nodeId: string, { endpointId, modelId, event, at }: BreakerChange): Promise<void> {
  if (event === 'restored') {
    await sql.query(
      `UPDATE server_incident SET ended_at = greatest($4, began_at)
        WHERE node_id = $1 AND endpoint_id = $2 AND model_id = $3 AND ended_at IS NULL`,
      [nodeId, endpointId, modelId, at],
    )
    return
  }
  const { rowCount } = await sql.query(
    `UPDATE server_incident SET ended_at = NULL WHERE incident_id = (
       SELECT incident_id FROM server_incident
        WHERE node_id = $1 AND endpoint_id = $2 AND model_id = $3 AND (ended_at IS NULL OR ended_at > $4::timestamptz - interval '5 minutes')
        ORDER BY began_at DESC LIMIT 1)`,
    [nodeId, endpointId, modelId, at],
  )
  if (rowCount !== 0) return
  await sql.query(
    'INSERT INTO server_incident (node_id, endpoint_id, model_id, kind, began_at) VALUES ($1, $2, $3, $5, $4)',
    [nodeId, endpointId, modelId, at, event],
  )
}

/** How many days the status page shows. */
export const STATUS_DAYS = 90
/** How long the texts of failures are kept, and how many: of all servers, and of one, so that it cannot push out those of others. */
export const ERRORS_MS = 7 * DAY_MS
const ERRORS_MAX = 100_000
const ERRORS_OF_SERVER_MAX = 10_000
/** A node that has not reported for this long has stopped, ms. */
export const REPORT_AGE_MS_MAX = 60_000

/** Ends the incidents of nodes that have stopped, and deletes what the status page no longer shows. */
export async function pruneReports(sql: Sql, nowMs: number): Promise<void> {
  const silentSince = new Date(nowMs - REPORT_AGE_MS_MAX)
  await sql.query(
    `UPDATE server_incident i SET ended_at = greatest(i.began_at, coalesce(r.at, i.began_at))
       FROM server_incident o LEFT JOIN node_report r USING (node_id)
      WHERE o.incident_id = i.incident_id AND i.ended_at IS NULL AND i.node_id IS NOT NULL AND (r.at IS NULL OR r.at < $1)`,
    [silentSince],
  )
  await sql.query('DELETE FROM node_report WHERE at < $1', [silentSince])
  const shownSince = new Date(nowMs - STATUS_DAYS * DAY_MS)
  await sql.query("DELETE FROM server_day WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date", [shownSince])
  await sql.query('DELETE FROM server_incident WHERE ended_at < $1', [shownSince])
  await sql.query('DELETE FROM server_health WHERE attempted_at < $1', [shownSince])
  await sql.query('DELETE FROM server_minute WHERE minute < $1', [new Date(nowMs - HOUR_MS)])
  await pruneErrors(sql, nowMs)
}

async function pruneErrors(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM server_error WHERE at < $1', [new Date(nowMs - ERRORS_MS)])
  await sql.query(
    `DELETE FROM server_error WHERE error_id IN (
       SELECT error_id FROM (
         SELECT error_id, row_number() OVER (PARTITION BY endpoint_id ORDER BY error_id DESC) AS place FROM server_error) AS e
        WHERE place > $1)`,
    [ERRORS_OF_SERVER_MAX],
  )
  await sql.query(
    'DELETE FROM server_error WHERE error_id <= (SELECT error_id FROM server_error ORDER BY error_id DESC OFFSET $1 LIMIT 1)',
    [ERRORS_MAX],
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
