import type { Sql } from '../base/db/pool.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import type { Offer } from '../base/domain/offer.ts'
import type { ServerState } from '../base/domain/server-state.ts'
import { groupBy, valueAt } from '../base/runtime/collections.ts'
import { readServerHealth, UNUSED } from '../market/supply/status/server-health.ts'
import { STATUS_DAYS } from '../market/supply/status/write-report.ts'
import type { StatusReport } from '../wire/api/status.ts'

type State = StatusReport['state']
type Incident = StatusReport['incidents'][number]

const INCIDENTS_MAX = 100
/** Each node notes its own incidents for each model, so several rows may be one incident. */
const INCIDENT_ROWS_MAX = 2_000

/**
 * Returns what customers may know of the servers: their state by the attempts of all customers, the share of answered
 * attempts by day, and when they failed. Without their addresses, and with their names only if `showsNames`.
 */
export async function readStatus(
  sql: Sql,
  offers: readonly Offer[],
  { showsNames, nowMs }: { readonly showsNames: boolean; readonly nowMs: number },
): Promise<StatusReport> {
  const now = new Date(nowMs)
  const [health, days, modelSums, incidentRows] = await Promise.all([
    readServerHealth(sql, nowMs),
    sql.query<DayRow>(DAYS, [now, STATUS_DAYS]),
    sql.query<ModelSum>(MODEL_SUMS, [now, STATUS_DAYS]),
    sql.query<IncidentRow>(INCIDENTS, [now, STATUS_DAYS, INCIDENT_ROWS_MAX]),
  ])
  const daysOf = Map.groupBy(days.rows, ({ endpointId }) => endpointId)
  const sumsOf = new Map(modelSums.rows.map(row => [row.modelId, row]))
  const groups = [...groupBy(offers, offer => offer.endpoint.endpointId)]
  const names = new Map(
    groups.map(([id, group], index) => [id, showsNames ? group[0].endpoint.name : `Server ${index + 1}`]),
  )
  const incidents = mergeIncidents(incidentRows.rows, names)
  const statesOf = (group: readonly Offer[]) =>
    group.map(({ offerId }) => publicStates[(health.get(offerId) ?? UNUSED).state])
  const models = [...Map.groupBy(offers, ({ modelId }) => modelId)].map(([id, group]) => {
    const sum = sumsOf.get(id)
    const states = statesOf(group)
    return {
      id,
      state: stateOf(states),
      servers: group.length,
      healthy: states.filter(state => state !== 'down').length,
      uptime: sum === undefined ? null : share([sum]),
      days_used: Number(sum?.days ?? 0),
      outages: incidents.filter(incident => incident.models.includes(id)).length,
    }
  })
  return {
    as_of: now.toISOString(),
    state: stateOf(models.map(({ state }) => state)),
    models,
    servers: groups.map(([id, group]) => {
      const own = daysOf.get(id) ?? []
      const name = valueAt(names, id)
      const outages = incidents.filter(({ server }) => server === name)
      return {
        name,
        provider: group[0].endpoint.kind,
        state: stateOf(statesOf(group)),
        models: group.map(({ modelId }) => modelId),
        uptime: share(own),
        days_used: own.length,
        outages: outages.length,
        days: daysOfPeriod(own, outages, nowMs),
      }
    }),
    incidents: incidents.slice(0, INCIDENTS_MAX),
  }
}

const publicStates: Record<ServerState, State> = {
  working: 'ok',
  degraded: 'degraded',
  failing: 'down',
  ejected: 'down',
  disabled: 'down',
  unknown: 'unknown',
}

/** Returns the state of parts together. A part that nobody has used says nothing, and hides no other. */
function stateOf(parts: readonly State[]): State {
  if (parts.every(state => state === 'unknown')) return 'unknown'
  if (parts.every(state => state === 'down')) return 'down'
  return parts.some(state => state === 'down' || state === 'degraded') ? 'degraded' : 'ok'
}

interface Sums {
  readonly answered: bigint
  readonly attempts: bigint
}

interface DayRow extends Sums {
  readonly endpointId: string
  readonly day: string
}

interface ModelSum extends Sums {
  readonly modelId: string
  readonly days: bigint
}

interface IncidentRow {
  readonly endpointId: string
  readonly modelId: string
  readonly kind: Incident['kind']
  readonly beganAt: Date
  readonly endedAt: Date | null
}

const SUMS = 'sum(answered)::bigint AS answered, sum(answered + failed + busy)::bigint AS attempts'
// A row may have charges only, of attempts of the day before.
const OF_PERIOD = "day > ($1::timestamptz AT TIME ZONE 'UTC')::date - $2::integer AND answered + failed + busy > 0"

const DAYS = `
SELECT endpoint_id AS "endpointId", to_char(day, 'YYYY-MM-DD') AS day, ${SUMS}
FROM server_day WHERE ${OF_PERIOD} GROUP BY endpoint_id, server_day.day`

const MODEL_SUMS = `
SELECT model_id AS "modelId", count(DISTINCT day) AS days, ${SUMS} FROM server_day WHERE ${OF_PERIOD} GROUP BY model_id`

const INCIDENTS = `
SELECT endpoint_id AS "endpointId", model_id AS "modelId", kind, began_at AS "beganAt", ended_at AS "endedAt"
FROM server_incident WHERE began_at > $1::timestamptz - make_interval(days => $2::integer) ORDER BY began_at DESC LIMIT $3`

function share(rows: readonly Sums[]): number | null {
  const answered = rows.reduce((sum, row) => sum + Number(row.answered), 0)
  const all = rows.reduce((sum, row) => sum + Number(row.attempts), 0)
  // Rounded down, so that only a day without a failure shows 1.
  return all === 0 ? null : Math.floor((answered / all) * 10_000) / 10_000
}

function daysOfPeriod(
  rows: readonly DayRow[],
  incidents: readonly Incident[],
  nowMs: number,
): StatusReport['servers'][number]['days'] {
  const byDay = new Map(rows.map(row => [row.day, row]))
  return Array.from({ length: STATUS_DAYS }, (_, index) => {
    const day = new Date(nowMs - (STATUS_DAYS - 1 - index) * DAY_MS).toISOString().slice(0, 10)
    const row = byDay.get(day)
    const outages = incidents.filter(incident => incident.began_at.startsWith(day)).length
    return { day, uptime: row === undefined ? null : share([row]), outages }
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
