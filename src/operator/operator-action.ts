import { nameActingKey } from '../base/db/audit-log.ts'
import { transactionOrDryRun } from '../base/db/dry-run.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import type { Acting } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'

/** The operator of an action. */
export interface Actor extends Acting {
  readonly personId: string
  /** Proves the session to the functions that move money: the hash of its token, as `hashSecretToken` returns it. */
  readonly session: Buffer
  /** The address of the client. */
  readonly address: string
}

/**
 * Runs `work` of an operator in a transaction, which a dry run rolls back. Rejects with `database_unavailable` when PostgreSQL cannot
 * be reached, and `role_not_allowed` when the session has ended or its person is no operator any more.
 */
export function act<T>(pool: Pool, actor: Actor, work: (sql: Sql) => Promise<T>, isDryRun = false): Promise<T> {
  return transactionOrDryRun(pool, isDryRun, async sql => {
    await nameActingKey(sql, actor)
    return work(sql)
  }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === NO_SESSION) throw new ApiError('role_not_allowed')
    return refuseOutage(error)
  })
}

/** See operator_of_session in sql/functions/operator/operators.sql. */
const NO_SESSION = 'SY004'
