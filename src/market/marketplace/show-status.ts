import type { Sql } from '../../base/db/pool.ts'
import { hosterCodes } from '../../base/domain/hoster-sentences.ts'
import { groupBy } from '../../base/runtime/collections.ts'
import type { HosterStatus } from '../../wire/api/hoster-console.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'
import { readServerHealth, UNUSED } from '../supply/status/server-health.ts'
import { REPORT_AGE_MS_MAX, type ReportedAgent } from '../supply/status/write-report.ts'
import type { WaitingState } from './manifests.ts'
import { nextProbesAt } from './probe-models.ts'
import { showHoster } from './show-hoster.ts'
import { findVerification } from './verification.ts'

interface WaitingRow {
  readonly model: string
  readonly state: WaitingState
  readonly appliesAt: Date
  /** Null: not probed since it was sent. */
  readonly probedAt: Date | null
}

interface UnapprovedRow {
  readonly model: string
  readonly state: 'unapproved' | 'refused'
  /** Why it is refused. */
  readonly reason: string | null
}

/**
 * Returns the offered models of a hoster with their health over all nodes, those that wait, and its connected agents.
 * Throws `hoster_not_found`.
 */
export async function showStatus(sql: Sql, hosterId: string, nowMs: number): Promise<HosterStatus> {
  const { endpointId } = await showHoster(sql, hosterId)
  const since = new Date(nowMs - REPORT_AGE_MS_MAX)
  const { rows: models } = await sql.query<{ model: string }>(MODELS, [endpointId])
  const health = await readServerHealth(sql, nowMs, endpointId)
  const { rows: agents } = await sql.query<ReportedAgent>(AGENTS, [hosterId, since])
  const { rows: waiting } = await sql.query<WaitingRow>(WAITING, [endpointId])
  const { rows: unapproved } = await sql.query<UnapprovedRow>(UNAPPROVED, [endpointId])
  const probes = (await findVerification(sql, hosterId))?.report?.probes ?? []
  const byAgent = groupBy(agents, ({ agentId }) => agentId)
  return {
    object: 'hoster.status',
    models: models.map(({ model }) => {
      const { state, inFlight, firstTokenMs, today } = health.get(`${endpointId}/${model}`) ?? UNUSED
      return {
        model,
        state,
        in_flight: inFlight,
        first_token_p50_ms: firstTokenMs,
        answered_today: today.answered,
        failed_today: today.failed,
      }
    }),
    waiting: [
      ...unapproved.map(({ model, state, reason }) => ({ ...nothingYet, model, state, problem: reason })),
      ...waiting.map(row => showWaiting(row, probes)),
    ],
    agents: [...byAgent.values()].map(connections => {
      const { agentId, keyId, version, state, reason, slots, models: served } = connections[0]
      return {
        id: agentId,
        key_id: keyId,
        version,
        state,
        reason,
        slots,
        free_slots: Math.min(...connections.map(({ freeSlots }) => freeSlots)),
        models: [...served],
        nodes: connections.length,
        connected_at: new Date(Math.min(...connections.map(({ sinceMs }) => sinceMs))).toISOString(),
      }
    }),
  }
}

const WAITING = `
SELECT model_id AS model, state, applies_at AS "appliesAt", probed_at AS "probedAt"
  FROM hoster_price_change WHERE endpoint_id = $1 AND state IN ('scheduled', 'probing') ORDER BY model_id`

const UNAPPROVED = `
SELECT model_id AS model, coalesce(m.state, 'unapproved') AS state, m.reason
  FROM hoster_price LEFT JOIN hoster_model m USING (model_id)
 WHERE endpoint_id = $1 AND valid_until IS NULL AND m.state IS DISTINCT FROM 'approved' ORDER BY model_id`

const nothingYet = { applies_at: null, passed: 0, problem: null, problem_codes: [], probed_at: null, again_at: null }

function showWaiting(
  { model, state, appliesAt, probedAt }: WaitingRow,
  probes: VerificationReport['probes'],
): HosterStatus['waiting'][number] {
  const open = { ...nothingYet, model }
  if (state === 'scheduled') return { ...open, state, applies_at: appliesAt.toISOString() }
  if (probedAt === null) return { ...open, state: 'waiting' }
  const found = probes.find(each => each.model === model)
  return {
    ...open,
    state: 'failed',
    passed: found?.passed ?? 0,
    problem: found?.problem ?? null,
    problem_codes: hosterCodes(found?.problem ?? null),
    probed_at: probedAt.toISOString(),
    again_at: nextProbesAt({ appliesAt, probedAt })?.toISOString() ?? null,
  }
}

const MODELS = `
SELECT p.model_id AS model FROM hoster_price p JOIN hoster_model m ON m.model_id = p.model_id AND m.state = 'approved'
 WHERE p.endpoint_id = $1 AND p.valid_until IS NULL ORDER BY p.model_id`

const AGENTS = `
SELECT a.* FROM node_report, jsonb_to_recordset(agents) AS a("agentId" text, "hosterId" text, "keyId" text, version text, state text,
    reason text, slots int, "freeSlots" int, models jsonb, "sinceMs" float8)
 WHERE at > $2 AND a."hosterId" = $1::text ORDER BY a."sinceMs", a."agentId"`
