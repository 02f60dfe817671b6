import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { hosterCodes } from '../../base/domain/hoster-sentences.ts'
import type { HosterActor, HosterState } from '../../base/domain/hoster-state.ts'
import { usdPerTokenText } from '../../base/domain/money.ts'
import type { CodedSentence } from '../../base/domain/said.ts'
import type { StoredManifest } from '../../wire/api/hoster-manifest.ts'
import type { Verification } from '../../wire/api/hoster-verification.ts'
import type { HosterTransport } from '../supply/hosters/hosters.ts'
import { findManifest, listWaiting } from './manifests.ts'
import { findVerification } from './verification.ts'

/** A hoster as its own people and programs see it. */
export interface OwnHoster {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  /** Its part of each charge, in basis points. */
  readonly shareBps: number
  readonly createdAt: Date
  readonly activeSince: Date | null
  readonly endpointId: string
  readonly transport: HosterTransport
  readonly baseUrl: string
  readonly challengePassedAt: Date | null
}

/** Reads a hoster. Throws `hoster_not_found`. */
export async function showHoster(sql: Sql, hosterId: string): Promise<OwnHoster> {
  const { rows } = await sql.query<OwnHoster>(
    `SELECT hoster_id AS "hosterId", name, state, share_bps AS "shareBps", h.created_at AS "createdAt",
            active_since AS "activeSince", endpoint_id AS "endpointId", transport, base_url AS "baseUrl",
            challenge_passed_at AS "challengePassedAt"
       FROM hoster h JOIN hoster_endpoint e USING (hoster_id)
      WHERE hoster_id = $1 ORDER BY e.created_at, endpoint_id LIMIT 1`,
    [hosterId],
  )
  if (rows[0] === undefined) throw new ApiError('hoster_not_found')
  return rows[0]
}

/** One change of the state. */
export interface PastStateChange {
  /** Null: the hoster was new. */
  readonly from: HosterState | null
  readonly to: HosterState
  readonly by: HosterActor
  readonly reason: string
  readonly at: Date
}

/** Returns the last 100 changes of a hoster's state, the newest first. */
export async function listStateChanges(sql: Sql, hosterId: string): Promise<PastStateChange[]> {
  const { rows } = await sql.query<PastStateChange>(
    `SELECT from_state AS "from", to_state AS "to", actor AS "by", reason, at
       FROM hoster_state_change WHERE hoster_id = $1 ORDER BY change_id DESC LIMIT 100`,
    [hosterId],
  )
  return rows
}

/**
 * Returns the newest manifest of a hoster with the prices that wait; null when it has none. Throws `hoster_not_found`.
 */
export async function showManifest(sql: Sql, hosterId: string): Promise<StoredManifest | null> {
  const { endpointId } = await showHoster(sql, hosterId)
  const found = await findManifest(sql, hosterId)
  if (found === undefined) return null
  const waiting = await listWaiting(sql, endpointId)
  return {
    object: 'hoster.manifest',
    version: found.version,
    source: found.source,
    created_at: found.createdAt.toISOString(),
    manifest: found.body,
    scheduled: waiting
      .filter(({ state }) => state === 'scheduled')
      .map(({ model, appliesAt }) => ({
        model: model.modelId,
        applies_at: appliesAt.toISOString(),
        prompt: usdPerTokenText(model.price.inputPicoPerToken),
        completion: usdPerTokenText(model.price.outputPicoPerToken),
      })),
    probing: waiting.filter(({ state }) => state === 'probing').map(({ model }) => model.modelId),
  }
}

/** Returns what the last check of a hoster found. Throws `hoster_not_found`. */
export async function showVerification(sql: Sql, hosterId: string): Promise<Verification> {
  // First the report: the state is then never older than the report that led to it.
  const found = await findVerification(sql, hosterId)
  const { state, transport, baseUrl, challengePassedAt } = await showHoster(sql, hosterId)
  const isDirect = transport === 'direct'
  const open = { passed: false, problem: null }
  return {
    object: 'hoster.verification',
    state,
    challenge: {
      passed: challengePassedAt !== null,
      transport,
      nonce: (isDirect && found?.nonce) || null,
      url: isDirect ? `${baseUrl}/switchyard-challenge` : null,
      ...withCodes({ problem: found?.report?.challenge_problem ?? null }),
    },
    manifest: withCodes(found?.report?.manifest ?? open),
    prices: withCodes(found?.report?.prices ?? open),
    probes: (found?.report?.probes ?? []).map(withCodes),
    checked_at: found?.checkedAt?.toISOString() ?? null,
  }
}

function withCodes<T extends { readonly problem: string | null }>(found: T): T & { problem_codes: CodedSentence[] } {
  return { ...found, problem_codes: hosterCodes(found.problem) }
}
