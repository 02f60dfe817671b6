import { arrayLiteral } from './array-literal.ts'
import type { Queryable } from './queryable.ts'

/** Gives back what these leases hold, without a usage row: their requests never ran. Returns the ids that were found. */
export async function releaseLeases(db: Queryable, leaseIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await db.query({
    text: 'SELECT release_leases($1)',
    rowMode: 'array',
    query_timeout: 10_000,
    values: [arrayLiteral(leaseIds, id => id)],
  })
  return new Set(rows.map(([id]) => id as string))
}
