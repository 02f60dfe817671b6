import type { Sql } from '../db/pool.ts'

const REMEMBERED_MS = 90 * 86_400_000

/** Whether the person has signed in from this network before. */
export async function knowsNetwork(sql: Sql, personId: string, network: string): Promise<boolean> {
  const { rows } = await sql.query('SELECT FROM person_network WHERE person_id = $1 AND network = $2', [
    personId,
    network,
  ])
  return rows.length > 0
}

/** Notes that the person has signed in from this network. */
export async function noteNetwork(sql: Sql, personId: string, network: string, nowMs: number): Promise<void> {
  await sql.query(
    `INSERT INTO person_network (person_id, network, last_used_at) VALUES ($1, $2, $3)
     ON CONFLICT (person_id, network) DO UPDATE SET last_used_at = EXCLUDED.last_used_at`,
    [personId, network, new Date(nowMs)],
  )
}

/** Forgets networks that have not been used for 90 days. */
export async function deleteOldNetworks(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM person_network WHERE last_used_at < $1', [new Date(nowMs - REMEMBERED_MS)])
}
