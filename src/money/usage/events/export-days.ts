import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'

/** The days that the schedule has written. */
export interface WrittenDays {
  /** The place and the format of the files. For another one, the first day is yesterday. */
  readonly target: string
  /** By day, `2026-11-29`: what the books said when its file was written. The newest days. */
  readonly days: Readonly<Record<string, DaySums>>
}

/** What the books say of a day: whole numbers as text. */
export interface DaySums {
  readonly requests: string
  readonly costNanos: string
}

/** The most days that a run writes. The next one goes on. */
const DAYS_MAX = 31

/** How long a day is compared with the books. */
const COMPARED_DAYS = 35

const NAME = 'usage_export_days'
const NOTHING: DaySums = { requests: '0', costNanos: '0' }

/** Of a day that could not be read: it differs from the books until it is written. */
export const UNWRITTEN: DaySums = { requests: '', costNanos: '' }

/**
 * Returns the days that must be written, the oldest first: those that have ended since the last one, at first yesterday, and
 * those whose charges have changed, because a node settled them late.
 *
 * @param today in UTC
 * @param books by day; a day that is missing has no requests
 */
export function dueDays(
  written: WrittenDays['days'],
  books: ReadonlyMap<string, DaySums>,
  today: string,
): readonly string[] {
  const changed = Object.entries(written)
    .filter(([day, before]) => day < today && !isSame(before, sumsOf(books, day)))
    .map(([day]) => day)
  const missing: string[] = []
  for (let day = firstMissing(written, today); day < today; day = dayAfter(day)) missing.push(day)
  return [...changed, ...missing].toSorted().slice(0, DAYS_MAX)
}

/** The days with one more, without those that are no longer compared. The newest stays: the next run begins after it. */
export function withDay(days: WrittenDays['days'], day: string, sums: DaySums): WrittenDays['days'] {
  const all = { ...days, [day]: sums }
  const oldest = addDays(newestOf(all) ?? day, -COMPARED_DAYS)
  return Object.fromEntries(Object.entries(all).filter(([each]) => each > oldest))
}

/** Reads what was written to this target. */
export async function readWrittenDays(sql: Sql, target: string): Promise<WrittenDays['days']> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  const written = JSON.parse(rows[0]?.value ?? 'null') as WrittenDays | null
  return written?.target === target ? written.days : {}
}

export async function noteWrittenDays(sql: Sql, written: WrittenDays): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [NAME, JSON.stringify(written)],
  )
}

/** Reads what the books say of the written days, and of those before `today` that follow. */
export async function readBooks(sql: Sql, written: WrittenDays['days'], today: string): Promise<Map<string, DaySums>> {
  const from = Object.keys(written).toSorted()[0] ?? firstMissing(written, today)
  const { rows } = await sql.query<DaySums & { readonly day: string }>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, sum(requests)::text AS requests, sum(cost_nanos)::text AS "costNanos"
     FROM usage_day WHERE day >= $1 AND day < $2 GROUP BY day`,
    [from, today],
  )
  return new Map(rows.map(({ day, ...sums }) => [day, sums]))
}

function firstMissing(written: WrittenDays['days'], today: string): string {
  const newest = newestOf(written)
  return newest === undefined ? addDays(today, -1) : dayAfter(newest)
}

/** What the books say of a day. */
export const sumsOf = (books: ReadonlyMap<string, DaySums>, day: string) => books.get(day) ?? NOTHING

const newestOf = (days: WrittenDays['days']) => Object.keys(days).toSorted().at(-1)
const isSame = (a: DaySums, b: DaySums) => a.requests === b.requests && a.costNanos === b.costNanos
const dayAfter = (day: string) => addDays(day, 1)
const addDays = (day: string, days: number) => new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10)
