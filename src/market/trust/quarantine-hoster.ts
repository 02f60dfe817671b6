import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import { joined } from '../../base/domain/said.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import {
  changeHosterState,
  commandLineActor,
  gatewayActor,
  type StateActor,
} from '../marketplace/change-hoster-state.ts'
import { type HosterRef, lockHoster } from '../supply/hosters/hosters.ts'
import { answerAppeal } from './appeals.ts'
import { lockTrustOf, writeTrust } from './evidence/trust-store.ts'
import type { SignalKind, Signals } from './quarantine.ts'

/**
 * Suspends a hoster on proof and freezes its payouts: it keeps what it earned, and gets it when the operator decides.
 * Run it last in a transaction. Returns the reason.
 */
export async function quarantineHoster(
  sql: Sql,
  hosterId: string,
  proof: readonly SignalKind[],
  signals: Signals,
): Promise<string> {
  const { text: reason } = joined(
    ...proof.map(kind => sayOfHoster(`hoster.cheat.${kind}`, { p: pText(signals[kind]?.p ?? 1) })),
  )
  await sql.query(
    `UPDATE hoster SET quarantined_at = now(), quarantine_reason = $2,
       payout_frozen_at = coalesce(payout_frozen_at, now()), payout_freeze_reason = coalesce(payout_freeze_reason, $2)
      WHERE hoster_id = $1`,
    [hosterId, reason],
  )
  await changeHosterState(sql, { ...gatewayActor, hosterId, to: 'suspended', reason })
  return reason
}

/** Smaller values say no more to anybody. */
const P_SHOWN_MIN = 1e-12

function pText(p: number): string {
  return p < P_SHOWN_MIN ? `p < ${P_SHOWN_MIN}` : `p = ${p.toPrecision(2)}`
}

/**
 * Ends a quarantine by a decision of the operator: the evidence of the tests starts again, the payouts are released,
 * and the hoster is active. The audits stay in the score. Throws `hoster_not_found` or `hoster_state_refused`. Run it
 * last in a transaction.
 */
export async function endQuarantine(
  sql: Sql,
  hosterId: string,
  { by, reason, nowMs }: { readonly by: StateActor; readonly reason: string; readonly nowMs: number },
): Promise<void> {
  const trust = await lockTrustOf(sql, hosterId)
  await writeTrust(sql, { ...trust, evidence: { ...trust.evidence, signals: {} } }, nowMs)
  await sql.query(
    `UPDATE hoster SET quarantined_at = NULL, quarantine_reason = NULL, payout_frozen_at = NULL, payout_freeze_reason = NULL
      WHERE hoster_id = $1 AND quarantined_at IS NOT NULL`,
    [hosterId],
  )
  await changeHosterState(sql, { ...by, hosterId, to: 'active', reason })
}

/**
 * Ends the quarantine of a hoster from the command line, and answers its appeal. `hoster` is an id or a name. Throws SupplyError
 * `unknown_hoster`, or `invalid_value` for a hoster in a state that does not allow it.
 */
export function releaseHoster(pool: Pool, hoster: string, reason: string): Promise<HosterRef> {
  return transaction(pool, async sql => {
    const found = await lockHoster(sql, hoster)
    const nowMs = Date.now()
    await endQuarantine(sql, found.hosterId, { by: commandLineActor, reason, nowMs }).catch((error: unknown) => {
      throw error instanceof ApiError ? new SupplyError('invalid_value', error.message) : error
    })
    await answerAppeal(sql, found.hosterId, { answer: reason, personId: null, address: null })
    return found
  })
}
