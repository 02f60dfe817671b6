import type { Sql } from '../db/pool.ts'

/** Gives back what these leases hold, without a usage row: their requests never ran. Returns the ids that were found. */
export async function releaseLeases(db: Sql, leaseIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>('SELECT id FROM release_leases($1) AS id', [leaseIds])
  return new Set(rows.map(({ id }) => id))
}
