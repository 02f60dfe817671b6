import { type Pool, type Sql, transaction } from '../db/pool.ts'

/** Months ahead of the current one that have their partition; the job runs daily, so a month's warning is plenty. */
const MONTHS_AHEAD = 2

/**
 * Makes the monthly partitions of usage_event for this month and the next ones, so that rows do not pile up in the default
 * partition and old months can be dropped as files. Ids are UUIDv7: the first 48 bits are the time, so a month is a range of ids.
 * Returns the names it made.
 */
export async function makeUsagePartitions(pool: Pool, nowMs: number): Promise<string[]> {
  return await transaction(pool, async sql => {
    // Several nodes may start at once; the later ones find the work done.
    await sql.query("SELECT pg_advisory_xact_lock(hashtext('switchyard usage partitions'))")
    const made: string[] = []
    for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
      const name = await makeMonth(sql, monthStart(nowMs, ahead), monthStart(nowMs, ahead + 1))
      if (name !== undefined) made.push(name)
    }
    return made
  })
}

async function makeMonth(sql: Sql, fromMs: number, toMs: number): Promise<string | undefined> {
  const name = `usage_event_${new Date(fromMs).toISOString().slice(0, 7).replace('-', '_')}`
  const { rows } = await sql.query<{ exists: boolean }>('SELECT to_regclass($1) IS NOT NULL AS exists', [name])
  if (rows[0]!.exists) return undefined
  // Names and bounds are made here from a date, as DDL takes no parameters. Made apart and attached, because
  // CREATE TABLE ... PARTITION OF locks out every settlement for its transaction, and ATTACH does not.
  await sql.query(`CREATE TABLE ${name} (LIKE usage_event INCLUDING ALL)`)
  await sql.query(
    `ALTER TABLE usage_event ATTACH PARTITION ${name} FOR VALUES FROM ('${firstIdAt(fromMs)}') TO ('${firstIdAt(toMs)}')`,
  )
  return name
}

function monthStart(nowMs: number, monthsAhead: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + monthsAhead, 1)
}

/** The smallest UUID that sorts with the UUIDv7s of this millisecond. */
function firstIdAt(epochMs: number): string {
  const hex = epochMs.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}
