import { nameActingKey } from '../base/db/audit-log.ts'
import { transactionOrDryRun } from '../base/db/dry-run.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import type { Acting } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'

/** The operator of an action. */
export interface Actor extends Acting {
  readonly personId: string
  /** Proves the session or the key to the functions that move money: the hash of its token. */
  readonly session: Buffer
  /** False for a key without the scope `money`. */
  readonly mayMoveMoney: boolean
  /** The address of the client. */
  readonly address: string
  /** Set for a request of a key with an `Idempotency-Key`. */
  readonly once?: OnceOnly
}

/** A request that is done once: a repeat gets the first answer. */
export interface OnceOnly {
  readonly keyId: string
  readonly idempotencyKey: string
  /** SHA-256 of the address and the body. Another request with the same `Idempotency-Key` is refused. */
  fingerprint(): Buffer
  seal(text: string): Buffer
  open(sealed: Buffer): string
  /** Called for a repeat. */
  onRepeat(): void
}

/**
 * Runs `work` of an operator in a transaction, which a dry run rolls back. A repeat of a request with an `Idempotency-Key`
 * gets the first result, which must be JSON, and changes nothing. Rejects with `database_unavailable` when PostgreSQL
 * cannot be reached, `role_not_allowed` when the session or the key has ended or its person is no operator any more, and
 * `idempotency_key_reused` for another request.
 */
export function act<T>(pool: Pool, actor: Actor, work: (sql: Sql) => Promise<T>, isDryRun = false): Promise<T> {
  return transactionOrDryRun(pool, isDryRun, async sql => {
    await nameActingKey(sql, actor)
    return actor.once === undefined || isDryRun ? work(sql) : doOnce(sql, actor.once, work)
  }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === NO_SESSION) throw new ApiError('role_not_allowed')
    return refuseOutage(error)
  })
}

/** See operator_of_session in sql/functions/operator/operators.sql. */
const NO_SESSION = 'SY004'

async function doOnce<T>(sql: Sql, once: OnceOnly, work: (sql: Sql) => Promise<T>): Promise<T> {
  const id = [once.keyId, once.idempotencyKey]
  const fingerprint = once.fingerprint()
  // A request that runs at the same time waits here until the other one has committed.
  const { rowCount } = await sql.query(
    'INSERT INTO operator_answer (key_id, idempotency_key, fingerprint) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
    [...id, fingerprint],
  )
  if (rowCount === 0) {
    const before = await queryRow<{ fingerprint: Buffer; answer: Buffer }>(
      sql,
      'SELECT fingerprint, answer FROM operator_answer WHERE key_id = $1 AND idempotency_key = $2',
      id,
    )
    if (!before.fingerprint.equals(fingerprint)) {
      throw new ApiError('idempotency_key_reused', { param: 'Idempotency-Key' })
    }
    once.onRepeat()
    return JSON.parse(once.open(before.answer)) as T
  }
  const result = await work(sql)
  await sql.query('UPDATE operator_answer SET answer = $3 WHERE key_id = $1 AND idempotency_key = $2', [
    ...id,
    once.seal(JSON.stringify(result ?? null)),
  ])
  return result
}
