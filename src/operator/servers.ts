import type { Sql } from '../base/db/pool.ts'
import type { Offer } from '../base/domain/offer.ts'
import { REPORT_AGE_MS_MAX, type ReportedServer } from '../market/supply/status/write-report.ts'
import type { ShownServer } from '../wire/api/operator/overview.ts'

interface DayRow {
  readonly endpointId: string
  readonly modelId: string
  readonly answered: bigint
  readonly failed: bigint
}

/** Returns every offer with its state over all nodes, in the order of the catalog. */
export async function listServers(sql: Sql, offers: readonly Offer[], nowMs: number): Promise<ShownServer[]> {
  const [reports, days] = await Promise.all([
    sql.query<ReportedServer>(
      `SELECT s."endpointId", s."modelId", s.state, s."inFlight", s."recentMs"
         FROM node_report, jsonb_to_recordset(servers) AS s("endpointId" text, "modelId" text, state text, "inFlight" int, "recentMs" jsonb)
        WHERE at > $1`,
      [new Date(nowMs - REPORT_AGE_MS_MAX)],
    ),
    sql.query<DayRow>(
      `SELECT endpoint_id AS "endpointId", model_id AS "modelId", answered, failed FROM server_day
        WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date`,
      [new Date(nowMs)],
    ),
  ])
  const idOf = ({ endpointId, modelId }: { endpointId: string; modelId: string }) => `${endpointId}/${modelId}`
  const reported = Map.groupBy(reports.rows, idOf)
  const today = new Map(days.rows.map(row => [idOf(row), row]))
  return offers.map(offer => {
    const nodes = reported.get(offer.offerId) ?? []
    const answered = Number(today.get(offer.offerId)?.answered ?? 0)
    const failed = Number(today.get(offer.offerId)?.failed ?? 0)
    return {
      endpoint_id: offer.endpoint.endpointId,
      name: offer.endpoint.name,
      provider: offer.endpoint.kind,
      model: offer.modelId,
      state: worstState(nodes),
      in_flight: nodes.reduce((sum, { inFlight }) => sum + inFlight, 0),
      first_token_p50_ms: median(nodes.flatMap(({ recentMs }) => recentMs)),
      answered_today: answered,
      failed_today: failed,
      ok_share: answered + failed === 0 ? null : answered / (answered + failed),
    }
  })
}

function worstState(nodes: readonly ReportedServer[]): ShownServer['state'] {
  const states = nodes.map(({ state }) => state)
  if (states.includes('ejected')) return 'ejected'
  if (states.includes('probing')) return 'probing'
  return states.length === 0 ? 'unused' : 'open'
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return low === undefined || high === undefined ? null : (low + high) / 2
}
