import { randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { HosterCaller } from '../../base/domain/hoster-access.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { readFactsOf, readHosterFacts } from './evidence/hoster-facts.ts'

/**
 * Asks the operator to look at a quarantine again. Run it in a transaction. Throws `hoster_not_found`, or
 * `hoster_state_refused` when the hoster is not quarantined or an earlier appeal waits for its answer.
 */
export async function appeal(
  sql: Sql,
  { hosterId, personId, keyId }: Pick<HosterCaller, 'hosterId' | 'personId' | 'keyId'>,
  text: string,
  address: string | null,
): Promise<void> {
  const [facts] = await readHosterFacts(sql, hosterId)
  if (facts === undefined) throw new ApiError('hoster_not_found')
  if (facts.quarantinedAt === null)
    throw new ApiError('hoster_state_refused', { message: sayRefusal('refusal.not_quarantined') })
  const { rowCount } = await sql.query(
    `INSERT INTO hoster_appeal (appeal_id, hoster_id, text, person_id, key_id) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (hoster_id) WHERE answered_at IS NULL DO NOTHING`,
    [randomUUID(), hosterId, text, personId, keyId],
  )
  if (rowCount === 0) throw new ApiError('hoster_state_refused', { message: sayRefusal('refusal.appeal_waits') })
  await noteAction(sql, {
    action: 'hoster.appealed',
    personId,
    keyId,
    subject: facts.name,
    detail: { hoster_id: hosterId },
    address,
  })
}

/** Answers the waiting appeal of a hoster, if there is one. Run it in a transaction. Returns whether there was. */
export async function answerAppeal(
  sql: Sql,
  hosterId: string,
  { answer, personId, address }: { answer: string; personId: string | null; address: string | null },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE hoster_appeal SET answer = $2, answered_by = $3, answered_at = now() WHERE hoster_id = $1 AND answered_at IS NULL`,
    [hosterId, answer, personId],
  )
  if (rowCount === 0) return false
  const { name } = await readFactsOf(sql, hosterId)
  await noteAction(sql, {
    action: 'hoster.appeal_answered',
    personId,
    subject: name,
    detail: { hoster_id: hosterId, answer },
    address,
  })
  return true
}

/** Returns the last appeals of a hoster, the newest first. */
export async function lastAppeals(sql: Sql, hosterId: string) {
  const { rows } = await sql.query<{ text: string; at: Date; answer: string | null; answered_at: Date | null }>(
    'SELECT text, at, answer, answered_at FROM hoster_appeal WHERE hoster_id = $1 ORDER BY at DESC LIMIT 20',
    [hosterId],
  )
  return rows.map(({ text, at, answer, answered_at }) => ({
    text,
    at: at.toISOString(),
    answer,
    answered_at: answered_at?.toISOString() ?? null,
  }))
}
