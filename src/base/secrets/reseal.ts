import type { Sql } from '../db/pool.ts'
import { queryRow } from '../db/query-row.ts'
import type { SealingKeys } from '../domain/sealing-keys.ts'
import { type SealedPlace, sealedPlaces } from './sealed-places.ts'
import { beginningOf, openSecret, sealSecret, UnreadableSecret } from './sealed-secret.ts'

export interface ResealDeps {
  /** By role: each may write its own places. Statements may take long: a table may have millions of values. */
  readonly pools: Readonly<Record<SealedPlace['role'], Sql>>
  readonly keys: SealingKeys
  /** Ends between two values. */
  readonly signal?: AbortSignal
}

/** What a pass through a place did. */
export interface Resealed {
  readonly place: SealedPlace
  /** Values that another key had sealed, and the current one seals now. */
  readonly resealed: number
  /** Values that no key of the ring opens. */
  readonly unreadable: number
}

/** How many values are read at once. An answer has up to 4 MB, so they take 80 MB at most. */
const BATCH = 20

/**
 * Seals every stored secret of a former key again, with the current one. Values change one by one: a process that is killed loses
 * nothing, and the next pass goes on. A value that changes at the same time is left as its writer wrote it.
 */
export async function resealAll(deps: ResealDeps): Promise<readonly Resealed[]> {
  const done: Resealed[] = []
  for (const place of sealedPlaces) done.push(await resealPlace(place, deps))
  return done
}

async function resealPlace(place: SealedPlace, { pools, keys, signal }: ResealDeps): Promise<Resealed> {
  const sql = pools[place.role]
  const counts = { resealed: 0, unreadable: 0 }
  let after: readonly string[] = place.key.map(({ type }) => (type === 'uuid' ? NIL_UUID : ''))
  const isOver = () => signal?.aborted === true
  while (!isOver()) {
    const found = await readFormer(sql, place, keys, after)
    for (const { key, owner, sealed } of found) {
      if (isOver()) break
      const renewed = reseal(place, keys, owner, sealed)
      if (renewed === undefined) counts.unreadable++
      else if (await replaceValue(sql, place, key, sealed, renewed)) counts.resealed++
    }
    const last = found.at(-1)
    if (last === undefined) break
    after = last.key
  }
  return { place, ...counts }
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000'

interface Found {
  readonly key: string[]
  readonly owner: string
  readonly sealed: Buffer
}

/** Reads the next values that the current key did not seal, in the order of the primary key. */
async function readFormer(sql: Sql, place: SealedPlace, keys: SealingKeys, after: readonly string[]): Promise<Found[]> {
  const { table, column, key, owner } = place
  const columns = key.map(each => each.column).join(', ')
  const texts = key.map(each => `${each.column}::text`).join(', ')
  const from = key.map(({ type }, at) => `$${at + 2}::${type}`).join(', ')
  const { rows } = await sql.query<Found>(
    `SELECT ARRAY[${texts}] AS key, ${owner}::text AS owner, ${column} AS sealed FROM ${table}
      WHERE substring(${column} FROM 1 FOR 9) <> $1 AND (${columns}) > (${from}) ORDER BY ${columns} LIMIT ${BATCH}`,
    [beginningOf(keys.current), ...after],
  )
  return rows
}

function reseal(place: SealedPlace, keys: SealingKeys, ownerId: string, sealed: Buffer): Buffer | undefined {
  const owner = { ownerId, purpose: place.purpose }
  try {
    return sealSecret(keys, openSecret(keys, sealed, owner), owner)
  } catch (error) {
    if (error instanceof UnreadableSecret) return undefined
    throw error
  }
}

/** False: the value has changed since it was read. */
async function replaceValue(
  sql: Sql,
  { table, column, key }: SealedPlace,
  ids: readonly string[],
  before: Buffer,
  after: Buffer,
): Promise<boolean> {
  const isRow = key.map(({ column: name, type }, at) => `${name} = $${at + 3}::${type}`).join(' AND ')
  const { rowCount } = await sql.query(`UPDATE ${table} SET ${column} = $2 WHERE ${column} = $1 AND ${isRow}`, [
    before,
    after,
    ...ids,
  ])
  return rowCount === 1
}

/** The stored secrets of a place, by the key that sealed them. */
export interface SealedCounts {
  readonly place: SealedPlace
  readonly current: number
  /** Sealed with another key of the ring. */
  readonly former: number
  /** No key of the ring opens them, or none is named: records of before 2026-11-29 are counted here until they are sealed again. */
  readonly unknown: number
}

/** @param sql may read every place, as the owner may */
export async function countSealed(sql: Sql, { current, all }: SealingKeys): Promise<readonly SealedCounts[]> {
  const beginnings = all.map(beginningOf)
  const counts: SealedCounts[] = []
  for (const place of sealedPlaces) {
    const { table, column } = place
    const count = await queryRow<Omit<SealedCounts, 'place'>>(
      sql,
      `SELECT count(*) FILTER (WHERE b = $1)::int AS current, count(*) FILTER (WHERE b <> $1 AND b = ANY ($2))::int AS former,
              count(*) FILTER (WHERE b <> ALL ($2))::int AS unknown
         FROM (SELECT substring(${column} FROM 1 FOR 9) AS b FROM ${table} WHERE ${column} IS NOT NULL) AS sealed`,
      [beginningOf(current), beginnings],
    )
    counts.push({ place, ...count })
  }
  return counts
}
