import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Sql } from '../../src/base/db/pool.ts'

/** By name: the migrations until 0046 as they were until 2026-11-28, when they had the functions too. */
export const formerMigrations: Readonly<Record<string, string>> = JSON.parse(
  gunzipSync(readFileSync(new URL('former-migrations.json.gz', import.meta.url))).toString(),
)

/**
 * Replaces the schema of the database by that of an earlier version: of the migrations up to the one with this number, such as
 * `0037`. `replaced` gives other texts of some.
 */
export async function useFormerSchema(
  sql: Sql,
  newest: string,
  replaced: Readonly<Record<string, string>> = {},
): Promise<void> {
  await sql.query('DROP SCHEMA IF EXISTS public, graphile_worker CASCADE')
  await sql.query('CREATE SCHEMA public')
  await sql.query(
    'CREATE TABLE migration (version int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
  )
  for (const [name, former] of Object.entries(formerMigrations).filter(([name]) => name.slice(0, 4) <= newest)) {
    const text = replaced[name] ?? former
    await sql.query(text)
    const checksum = createHash('sha256').update(text).digest('hex')
    await sql.query('INSERT INTO migration VALUES ($1, $2, $3)', [Number(name.slice(0, 4)), name, checksum])
  }
}
