import type { Sql } from '../../../base/db/pool.ts'
import type { HosterState } from '../../../base/domain/hoster-state.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { Standing } from '../trust-score.ts'

/** What a score depends on besides evidence. */
export interface HosterFacts {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  /** When it was first active. */
  readonly activeSince: Date | null
  readonly standing: Standing
  readonly score: number
  readonly override: number | null
  readonly quarantinedAt: Date | null
  readonly quarantineReason: string | null
}

/** Returns the hosters that are not retired; with an id, that one in any state. */
export async function readHosterFacts(sql: Sql, hosterId: string | null = null): Promise<HosterFacts[]> {
  const { rows } = await sql.query<HosterFacts>(FACTS, [hosterId])
  return rows
}

/** Like `readHosterFacts`, for a hoster that exists. */
export async function readFactsOf(sql: Sql, hosterId: string): Promise<HosterFacts> {
  return elementAt(await readHosterFacts(sql, hosterId), 0)
}

const FACTS = `
SELECT hoster_id AS "hosterId", name, state, active_since AS "activeSince", trust_score AS score, trust_override AS override,
  quarantined_at AS "quarantinedAt", quarantine_reason AS "quarantineReason",
  CASE WHEN has_contract THEN 'contract' WHEN is_verified(hoster_id) THEN 'verified' ELSE 'unverified' END AS standing
FROM hoster WHERE CASE WHEN $1::uuid IS NULL THEN state <> 'retired' ELSE hoster_id = $1 END
ORDER BY hoster_id`

/** Writes the score that routing uses. Returns whether it changed enough for the nodes to read it. */
export async function writeScore(sql: Sql, hosterId: string, score: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE hoster SET trust_score = $2
      WHERE hoster_id = $1 AND (abs(trust_score - $2) >= 0.005 OR (trust_score > 0.8) <> ($2 > 0.8) OR ($2 = 0 AND trust_score <> 0))`,
    [hosterId, score],
  )
  return rowCount === 1
}
