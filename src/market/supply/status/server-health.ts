import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS, MINUTE_MS } from '../../../base/domain/durations.ts'
import type { OfferState } from '../../../base/domain/health.ts'
import type { ServerState } from '../../../base/domain/server-state.ts'
import type { LastError } from '../breakers/attempt-tally.ts'
import { FAILURES_TO_EJECT } from '../breakers/offer-record.ts'
import { REPORT_AGE_MS_MAX, type ReportedServer } from './write-report.ts'

/** Attempts at a server and how they ended. */
export interface EndedAttempts {
  readonly answered: number
  readonly failed: number
  readonly busy: number
}

/** A server and one of its models, as all nodes see it. */
export interface ServerHealth {
  readonly state: ServerState
  readonly inFlight: number
  /** The median of the last answers; null without any. */
  readonly firstTokenMs: number | null
  /** This UTC day. */
  readonly today: EndedAttempts
  /** The last `RECENT_MINUTES`. */
  readonly recent: EndedAttempts
  /** The customers that it is kept away from while it serves others: the most of any node. */
  readonly customersKeptAway: number
  readonly attemptedAtMs: number | null
  readonly lastError: LastError | null
}

/** Only attempts of this time say how a server is now. */
export const RECENT_MINUTES = 10
/** After this time without an attempt, nothing is known of a server. */
const KNOWN_MS = DAY_MS
const FAILED_MIN = 3
const FAILING_SHARE = 0.5
const DEGRADED_SHARE = 0.1
const BUSY_SHARE = 0.5
/** As many answers in a row end `failing`. */
const ANSWERS_TO_RECOVER = 3

/** What the state of a server follows from. */
export interface HealthFacts {
  /** The breakers of the nodes. */
  readonly breakers: readonly OfferState[]
  readonly customersKeptAway: number
  readonly recent: EndedAttempts
  readonly answeredInRow: number
  readonly failedInRow: number
  readonly attemptedAtMs: number | null
}

/** Decides what is shown of a server. docs/routing.md lists the figures. */
export function serverStateOf(facts: HealthFacts, nowMs: number): ServerState {
  const { breakers, customersKeptAway, recent, answeredInRow, failedInRow, attemptedAtMs } = facts
  if (breakers.includes('ejected')) return 'ejected'
  if (attemptedAtMs === null || attemptedAtMs < nowMs - KNOWN_MS) return 'unknown'
  const { failed, busy } = recent
  const attempts = attemptsOf(recent)
  if (failedInRow >= FAILURES_TO_EJECT) return 'failing'
  if (failed >= FAILED_MIN && failed >= FAILING_SHARE * attempts && answeredInRow < ANSWERS_TO_RECOVER) return 'failing'
  const hasFailedLast = failedInRow > 0 && attempts === 0
  if (hasFailedLast || breakers.includes('probing') || customersKeptAway > 0) return 'degraded'
  if (failed > 0 && failed >= DEGRADED_SHARE * attempts) return 'degraded'
  return busy > 0 && busy >= BUSY_SHARE * attempts ? 'degraded' : 'working'
}

export function attemptsOf({ answered, failed, busy }: EndedAttempts): number {
  return answered + failed + busy
}

/** Returns the share of attempts that were answered, 0 to 1; null without attempts. */
export function answeredShare(attempts: EndedAttempts): number | null {
  const all = attemptsOf(attempts)
  return all === 0 ? null : attempts.answered / all
}

/** Of a server that no node has used. */
export const UNUSED: ServerHealth = {
  state: 'unknown',
  inFlight: 0,
  firstTokenMs: null,
  today: { answered: 0, failed: 0, busy: 0 },
  recent: { answered: 0, failed: 0, busy: 0 },
  customersKeptAway: 0,
  attemptedAtMs: null,
  lastError: null,
}

/** Returns the health of all servers that were used in the last months, by offer id. */
export async function readServerHealth(
  sql: Sql,
  nowMs: number,
  endpointId: string | null = null,
): Promise<ReadonlyMap<string, ServerHealth>> {
  const now = new Date(nowMs)
  const [reports, counts] = await Promise.all([
    sql.query<ReportRow>(REPORTS, [new Date(nowMs - REPORT_AGE_MS_MAX), endpointId]),
    sql.query<CountRow>(COUNTS, [now, new Date(nowMs - RECENT_MINUTES * MINUTE_MS), endpointId]),
  ])
  const reported = Map.groupBy(reports.rows, ({ offerId }) => offerId)
  const counted = new Map(counts.rows.map(row => [row.offerId, row]))
  const offerIds = new Set([...reported.keys(), ...counted.keys()])
  return new Map(
    [...offerIds].map(offerId => [offerId, healthOf(reported.get(offerId) ?? [], counted.get(offerId), nowMs)]),
  )
}

type ReportRow = Pick<ReportedServer, 'state' | 'inFlight' | 'recentMs'> & {
  readonly offerId: string
  readonly customersKeptAway: number
}

interface CountRow {
  readonly offerId: string
  readonly attemptedAt: Date | null
  readonly answeredInRow: number
  readonly failedInRow: number
  readonly lastError: LastError | null
  readonly today: EndedAttempts
  readonly recent: EndedAttempts
}

// A node of an earlier version reports no customers.
const REPORTS = `
SELECT s."endpointId" || '/' || s."modelId" AS "offerId", s.state, s."inFlight", s."recentMs", coalesce(s."customersKeptAway", 0) AS "customersKeptAway"
  FROM node_report, jsonb_to_recordset(servers)
    AS s("endpointId" text, "modelId" text, state text, "inFlight" int, "recentMs" jsonb, "customersKeptAway" int)
 WHERE at > $1 AND ($2::text IS NULL OR s."endpointId" = $2)`

const SUMS = `jsonb_build_object('answered', coalesce(sum(answered), 0), 'failed', coalesce(sum(failed), 0), 'busy', coalesce(sum(busy), 0))`

const COUNTS = `
WITH recent AS (
  SELECT endpoint_id, model_id, ${SUMS} AS counts FROM server_minute
   WHERE minute > $2 AND ($3::text IS NULL OR endpoint_id = $3) GROUP BY endpoint_id, model_id
), today AS (
  SELECT endpoint_id, model_id, ${SUMS} AS counts FROM server_day
   WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date AND ($3::text IS NULL OR endpoint_id = $3) GROUP BY endpoint_id, model_id
), nothing AS (SELECT ${SUMS} AS counts FROM (VALUES (0, 0, 0)) AS zero (answered, failed, busy))
SELECT endpoint_id || '/' || model_id AS "offerId", attempted_at AS "attemptedAt", coalesce(answered_in_row, 0)::float8 AS "answeredInRow",
  coalesce(failed_in_row, 0)::float8 AS "failedInRow", last_error AS "lastError", coalesce(today.counts, nothing.counts) AS today,
  coalesce(recent.counts, nothing.counts) AS recent
  FROM (SELECT * FROM server_health WHERE $3::text IS NULL OR endpoint_id = $3) AS health
  FULL JOIN today USING (endpoint_id, model_id)
  FULL JOIN recent USING (endpoint_id, model_id), nothing`

function healthOf(reports: readonly ReportRow[], counts: CountRow | undefined, nowMs: number): ServerHealth {
  const { today, recent, lastError } = counts ?? UNUSED
  const attemptedAtMs = counts?.attemptedAt?.getTime() ?? null
  const customersKeptAway = Math.max(0, ...reports.map(report => report.customersKeptAway))
  const facts = {
    breakers: reports.map(({ state }) => state),
    customersKeptAway,
    recent,
    answeredInRow: counts?.answeredInRow ?? 0,
    failedInRow: counts?.failedInRow ?? 0,
    attemptedAtMs,
  }
  return {
    state: serverStateOf(facts, nowMs),
    inFlight: reports.reduce((sum, { inFlight }) => sum + inFlight, 0),
    firstTokenMs: median(reports.flatMap(({ recentMs }) => recentMs)),
    today,
    recent,
    customersKeptAway,
    attemptedAtMs,
    lastError,
  }
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return low === undefined || high === undefined ? null : (low + high) / 2
}
