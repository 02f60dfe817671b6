import { transactionOrDryRun } from '../db/dry-run.ts'
import type { Pool, Sql } from '../db/pool.ts'
import { refuseOutage } from '../db/refuse-outage.ts'

/** The operator who acts, for the audit log. */
export interface Actor {
  readonly personId: string
  /** The address of the client. */
  readonly address: string
}

/**
 * Runs `work` in a transaction, which a dry run rolls back. Rejects with `database_unavailable` when PostgreSQL cannot be
 * reached.
 */
export function act<T>(pool: Pool, work: (sql: Sql) => Promise<T>, isDryRun = false): Promise<T> {
  return transactionOrDryRun(pool, isDryRun, work).catch(refuseOutage)
}
