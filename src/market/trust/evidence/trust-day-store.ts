import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'
import { shownDay, utcDayOf } from '../../supply/hosters/shown-score.ts'
import type { ShownFigures } from '../trust-figures.ts'

/** What is known of a hoster at the end of a UTC day. */
export interface TrustDay {
  /** YYYY-MM-DD. */
  readonly day: string
  readonly figures: ShownFigures
}

/** Returns the latest day that a hoster and the public may see; undefined before there is one. */
export async function readTrustDay(sql: Sql, hosterId: string, nowMs: number): Promise<TrustDay | undefined> {
  const { rows } = await sql.query<TrustDay>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, shown AS figures FROM hoster_trust_day
      WHERE hoster_id = $1 AND day <= $2::date ORDER BY hoster_trust_day.day DESC LIMIT 1`,
    [hosterId, shownDay(nowMs)],
  )
  return rows[0]
}

/** Writes the figures of a hoster on a day, or replaces other ones. Returns whether they are the first of that day. */
export async function writeTrustDay(sql: Sql, hosterId: string, { day, figures }: TrustDay): Promise<boolean> {
  const { rows } = await sql.query<{ isNew: boolean }>(
    `INSERT INTO hoster_trust_day (hoster_id, day, shown) VALUES ($1, $2, $3)
     ON CONFLICT (hoster_id, day) DO UPDATE SET shown = excluded.shown
       WHERE hoster_trust_day.shown <> excluded.shown RETURNING xmax = 0 AS "isNew"`,
    [hosterId, day, JSON.stringify(figures)],
  )
  return rows[0]?.isNew ?? false
}

const KEPT_DAYS = 90

/** Deletes the days that are older than 90 days. */
export async function pruneTrustDays(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM hoster_trust_day WHERE day < $1::date', [utcDayOf(nowMs - KEPT_DAYS * DAY_MS)])
}

const NAME = 'trust_days_since'

/** Whether the job that writes the days has run before in this installation. */
export async function hasTrustDays(sql: Sql): Promise<boolean> {
  return (await sql.query('SELECT FROM installation WHERE name = $1', [NAME])).rowCount === 1
}

export async function noteTrustDays(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
    NAME,
    new Date(nowMs).toISOString(),
  ])
}
