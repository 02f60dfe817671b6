import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { hashSecretToken } from './secret-token.ts'

const REMEMBERED_MS = 90 * DAY_MS

/** Whether the person, if there is one, has signed in from this network before. */
export async function knowsNetwork(sql: Sql, personId: string | null, network: string): Promise<boolean> {
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

/** Forgets networks and browsers that have not been used for 90 days. */
export async function deleteOldNetworks(sql: Sql, nowMs: number): Promise<void> {
  const before = new Date(nowMs - REMEMBERED_MS)
  await sql.query('DELETE FROM person_network WHERE last_used_at < $1', [before])
  await sql.query('DELETE FROM person_device WHERE last_used_at < $1', [before])
}

/**
 * Notes that the person has signed in from the browser with this token. Customers whose members share a browser are
 * related: see `related_customers`.
 */
export async function noteDevice(sql: Sql, personId: string, token: string, nowMs: number): Promise<void> {
  await sql.query(
    `INSERT INTO person_device (person_id, device_hash, last_used_at) VALUES ($1, $2, $3)
     ON CONFLICT (person_id, device_hash) DO UPDATE SET last_used_at = EXCLUDED.last_used_at`,
    [personId, hashSecretToken(token), new Date(nowMs)],
  )
}
