import type { Sql } from '../../src/base/db/pool.ts'
import type { LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'

/** Returns a ledger store on one pool. A gateway uses separate pools for money and heartbeats. */
export function storeOf(pool: Sql): LedgerStore {
  return createPostgresStore({ money: pool, heartbeat: pool })
}
