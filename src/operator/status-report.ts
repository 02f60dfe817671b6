import type { Sql } from '../base/db/pool.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import type { Offer } from '../base/domain/offer.ts'
import { groupBy, valueAt } from '../base/runtime/collections.ts'
import { REPORT_AGE_MS_MAX, STATUS_DAYS } from '../market/supply/status/write-report.ts'
import type { StatusReport } from '../wire/api/status.ts'

type State = StatusReport['state']
type Incident = StatusReport['incidents'][number]

const INCIDENTS_MAX = 100
/** Each node notes its own incidents for each model, so several rows may be one incident. */
const INCIDENT_ROWS_MAX = 2_000

/**
 * Returns what customers may know of the servers: their state, the share of answered attempts by day, and when breakers
 * kept requests away. Without their addresses, and with their names only if `showsNames`.
 */
export async function readStatus(
  sql: Sql,
  offers: readonly Offer[],
  { showsNames, nowMs }: { readonly showsNames: boolean; readonly nowMs: number },
): Promise<StatusReport> {
  const now = new Date(nowMs)
  const [ejected, days, incidents] = await Promise.all([
    sql.query<{ offerId: string }>(EJECTED, [new Date(nowMs - REPORT_AGE_MS_MAX)]),
    sql.query<DayRow>(DAYS, [now, STATUS_DAYS]),
    sql.query<IncidentRow>(INCIDENTS, [now, STATUS_DAYS, INCIDENT_ROWS_MAX]),
  ])
  const ejectedOffers = new Set(ejected.rows.map(({ offerId }) => offerId))
  const daysOf = Map.groupBy(days.rows, ({ endpointId }) => endpointId)
  const groups = [...groupBy(offers, offer => offer.endpoint.endpointId)]
  const names = new Map(
    groups.map(([id, group], index) => [id, showsNames ? group[0].endpoint.name : `Server ${index + 1}`]),
  )
  const models = [...Map.groupBy(offers, ({ modelId }) => modelId)].map(([id, group]) => {
    const healthy = group.filter(({ offerId }) => !ejectedOffers.has(offerId)).length
    return { id, state: stateOf(healthy, group.length), servers: group.length, healthy }
  })
  const working = models.filter(model => model.state === 'ok').length
  const isDown = models.every(model => model.state === 'down')
  return {
    as_of: now.toISOString(),
    state: working === models.length && models.length > 0 ? 'ok' : isDown ? 'down' : 'degraded',
    models,
    servers: groups.map(([id, group]) => {
      const healthy = group.filter(({ offerId }) => !ejectedOffers.has(offerId)).length
      const own = daysOf.get(id) ?? []
      return {
        name: valueAt(names, id),
        provider: group[0].endpoint.kind,
        state: stateOf(healthy, group.length),
        models: group.map(({ modelId }) => modelId),
        uptime: share(own),
        days: daysOfPeriod(own, nowMs),
      }
    }),
    incidents: mergeIncidents(incidents.rows, names).slice(0, INCIDENTS_MAX),
  }
}

interface DayRow {
  readonly endpointId: string
  readonly day: string
  readonly answered: bigint
  readonly failed: bigint
}

interface IncidentRow {
  readonly endpointId: string
  readonly modelId: string
  readonly kind: Incident['kind']
  readonly beganAt: Date
  readonly endedAt: Date | null
}

const EJECTED = `
SELECT DISTINCT (s."endpointId" || '/' || s."modelId") AS "offerId"
FROM node_report, jsonb_to_recordset(servers) AS s("endpointId" text, "modelId" text, state text)
WHERE at > $1 AND s.state = 'ejected'`

const DAYS = `
SELECT endpoint_id AS "endpointId", to_char(day, 'YYYY-MM-DD') AS day, sum(answered)::bigint AS answered, sum(failed)::bigint AS failed
FROM server_day WHERE day > ($1::timestamptz AT TIME ZONE 'UTC')::date - $2::integer GROUP BY endpoint_id, server_day.day`

const INCIDENTS = `
SELECT endpoint_id AS "endpointId", model_id AS "modelId", kind, began_at AS "beganAt", ended_at AS "endedAt"
FROM server_incident WHERE began_at > $1::timestamptz - make_interval(days => $2::integer) ORDER BY began_at DESC LIMIT $3`

function stateOf(healthy: number, all: number): State {
  if (healthy === all) return 'ok'
  return healthy === 0 ? 'down' : 'degraded'
}

function share(rows: readonly DayRow[]): number | null {
  const answered = rows.reduce((sum, row) => sum + Number(row.answered), 0)
  const all = rows.reduce((sum, row) => sum + Number(row.failed), answered)
  // Rounded down, so that only a day without a failure shows 1.
  return all === 0 ? null : Math.floor((answered / all) * 10_000) / 10_000
}

function daysOfPeriod(rows: readonly DayRow[], nowMs: number): { day: string; uptime: number | null }[] {
  const byDay = new Map(rows.map(row => [row.day, row]))
  return Array.from({ length: STATUS_DAYS }, (_, index) => {
    const day = new Date(nowMs - (STATUS_DAYS - 1 - index) * DAY_MS).toISOString().slice(0, 10)
    const row = byDay.get(day)
    return { day, uptime: row === undefined ? null : share([row]) }
  })
}

interface OpenIncident extends Pick<Incident, 'server' | 'models' | 'kind'> {
  readonly beganMs: number
  /** Infinity: it goes on. */
  endedMs: number
}

/**
 * Joins what several nodes saw of a server at the same time. `rows` begin with the newest. Servers that are no longer
 * sold are left out.
 */
function mergeIncidents(rows: readonly IncidentRow[], names: ReadonlyMap<string, string>): Incident[] {
  const merged: OpenIncident[] = []
  const last = new Map<string, OpenIncident>()
  for (const { endpointId, modelId, kind, beganAt, endedAt } of rows.toReversed()) {
    const server = names.get(endpointId)
    if (server === undefined) continue
    const key = `${endpointId} ${kind}`
    const open = last.get(key)
    const endedMs = endedAt?.getTime() ?? Infinity
    if (open !== undefined && beganAt.getTime() <= open.endedMs) {
      open.endedMs = Math.max(open.endedMs, endedMs)
      if (!open.models.includes(modelId)) open.models.push(modelId)
      continue
    }
    const incident: OpenIncident = { server, models: [modelId], kind, beganMs: beganAt.getTime(), endedMs }
    merged.push(incident)
    last.set(key, incident)
  }
  return merged
    .toSorted((a, b) => b.beganMs - a.beganMs)
    .map(({ beganMs, endedMs, ...incident }) => ({
      ...incident,
      began_at: new Date(beganMs).toISOString(),
      ended_at: endedMs === Infinity ? null : new Date(endedMs).toISOString(),
    }))
}
