import type { Sql } from '../../base/db/pool.ts'
import type { Verification } from '../../wire/api/hoster-verification.ts'
import { showHoster } from './show-hoster.ts'
import { findVerification } from './verification.ts'

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
      problem: found?.report?.challenge_problem ?? null,
    },
    manifest: found?.report?.manifest ?? open,
    prices: found?.report?.prices ?? open,
    probes: found?.report?.probes ?? [],
    checked_at: found?.checkedAt?.toISOString() ?? null,
  }
}
