import type { Sql } from '../../src/db/pool.ts'
import type { LedgerStore } from '../../src/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/ledger/postgres-store.ts'

/** The ledger in PostgreSQL over one pool: a gateway keeps its money and its heartbeats apart. */
export function storeOf(pool: Sql): LedgerStore {
  return createPostgresStore({ money: pool, heartbeat: pool })
}
