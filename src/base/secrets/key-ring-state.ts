import { bumpControlVersion } from '../db/control-version.ts'
import type { Sql } from '../db/pool.ts'
import { type MasterKeys, markOf } from './master-keys.ts'

// The table `master_key` has the marks of the keys of the installation, and which of them seals. Only the owner writes it: a role of
// the gateway that could would make nodes seal with a key that was replaced because it leaked.

/** `next`: some nodes have it, and none seals with it. `forgotten`: no process needs it any more. */
export type KeyState = 'next' | 'current' | 'former' | 'forgotten'

export interface RingKey {
  readonly mark: string
  readonly state: KeyState
  /** When it came into this state. */
  readonly since: Date
}

/** All keys that the installation has had, the newest first. */
export async function readRing(sql: Sql): Promise<readonly RingKey[]> {
  const { rows } = await sql.query<RingKey>('SELECT mark, state, since FROM master_key ORDER BY since DESC, mark')
  return rows
}

/** Returns the mark of the key that seals; undefined before the first start. */
export async function readMark(sql: Sql): Promise<string | undefined> {
  const { rows } = await sql.query<{ mark: string }>("SELECT mark FROM master_key WHERE state = 'current'")
  return rows[0]?.mark
}

/**
 * Makes a starting process seal with the key that the installation seals with, and notes that key at the first start. Run it as the
 * owner. `replaced`: the process does not have it, and no living node may have it, so the key of this process takes its place.
 * `other`: another node may have it. `former`: all keys of the process were replaced before, so none takes the place of a newer one:
 * it may have leaked. See `adoptKey`.
 *
 * @param isOnlyNode no other process serves from this database
 */
export async function joinRing(
  sql: Sql,
  keys: MasterKeys,
  isOnlyNode: boolean,
): Promise<'same' | 'replaced' | 'other' | 'former'> {
  const mark = await readMark(sql)
  if (mark !== undefined) {
    if (keys.use(mark)) return 'same'
    // A node that has not reported yet may have it.
    const mayHaveIt = ({ marks }: NodeKeys) => marks.length === 0 || marks.includes(mark)
    if (!isOnlyNode && (await readNodeKeys(sql)).some(mayHaveIt)) return 'other'
    const known = new Set((await readRing(sql)).map(key => key.mark))
    if (known.has(markOf(keys.current))) return 'former'
  }
  await adoptKey(sql, markOf(keys.current))
  return mark === undefined ? 'same' : 'replaced'
}

/** Makes this key the one that seals, whatever it was before. For the first start, and after a loss of the current key. */
export async function adoptKey(sql: Sql, mark: string): Promise<void> {
  await sql.query(
    "UPDATE master_key SET state = 'former', since = now() WHERE state IN ('current', 'next') AND mark <> $1",
    [mark],
  )
  await sql.query(
    `INSERT INTO master_key (mark, state) VALUES ($1, 'current')
     ON CONFLICT (mark) DO UPDATE SET state = excluded.state, since = now()`,
    [mark],
  )
}

/** Notes a key that is about to be handed to all nodes. */
export async function nominateKey(sql: Sql, mark: string): Promise<void> {
  await sql.query("INSERT INTO master_key (mark, state) VALUES ($1, 'next') ON CONFLICT DO NOTHING", [mark])
}

/** Lets go of a next key that no process has any more. */
export async function abandonKey(sql: Sql, mark: string): Promise<void> {
  await sql.query("DELETE FROM master_key WHERE state = 'next' AND mark = $1", [mark])
}

/** Makes all nodes seal with the next key, within a second. False: another command has done it. */
export async function promoteKey(sql: Sql, mark: string): Promise<boolean> {
  // The index of the current key admits one at a time.
  await sql.query("UPDATE master_key SET state = 'former', since = now() WHERE state = 'current' AND mark <> $1", [
    mark,
  ])
  const { rowCount } = await sql.query(
    "UPDATE master_key SET state = 'current', since = now() WHERE state = 'next' AND mark = $1",
    [mark],
  )
  await bumpControlVersion(sql, 'master_key')
  return rowCount === 1
}

/** Forgets those of these keys that are still former ones. Returns their marks. */
export async function forgetKeys(sql: Sql, marks: readonly string[]): Promise<string[]> {
  const { rows } = await sql.query<{ mark: string }>(
    "UPDATE master_key SET state = 'forgotten', since = now() WHERE state = 'former' AND mark = ANY ($1) RETURNING mark",
    [marks],
  )
  return rows.map(({ mark }) => mark)
}

/** Returns the marks of the former keys that these keys lack. */
export async function formerKeysMissing(sql: Sql, keys: MasterKeys): Promise<readonly string[]> {
  const own = new Set(keys.all.map(markOf))
  return (await readRing(sql)).filter(({ mark, state }) => state === 'former' && !own.has(mark)).map(({ mark }) => mark)
}

/** The keys of a node that is alive, as it last reported them. */
export interface NodeKeys {
  readonly nodeId: string
  readonly host: string | null
  /** The first one seals. Empty: it has not reported yet. */
  readonly marks: readonly string[]
  /** Grows while the node lives. */
  readonly heartbeats: number
}

/** A killed node is among them until its heartbeat is missed. Its host stands in the report of its disks. */
export async function readNodeKeys(sql: Sql): Promise<readonly NodeKeys[]> {
  const { rows } = await sql.query<NodeKeys>(
    `SELECT h.node_id AS "nodeId", r.disks -> 0 ->> 'host' AS host, coalesce(r.master_keys, '[]') AS marks, heartbeats
       FROM node_heartbeat h LEFT JOIN node_report r ON r.node_id = h.node_id ORDER BY 2, 1`,
  )
  return rows
}

const SEALED_WITH = 'secrets_sealed_with'

/** Whether a pass has found that all stored secrets are sealed with the current key. Reads a few rows. */
export async function isResealed(sql: Sql): Promise<boolean> {
  const { rows } = await sql.query(
    "SELECT FROM master_key k JOIN installation i ON i.name = $1 AND i.value = k.mark WHERE k.state = 'current'",
    [SEALED_WITH],
  )
  return rows.length > 0
}

/** Notes that all stored secrets are sealed with this key. */
export async function noteResealed(sql: Sql, mark: string): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [SEALED_WITH, mark],
  )
}
