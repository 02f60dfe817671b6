import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import type { Nanos } from '../../../base/domain/money.ts'

/** A month of usage rows that is not archived yet. */
export interface UsageMonth {
  /** `2026-01` */
  readonly month: string
  /** Whether an earlier call began to archive it. */
  readonly isFrozen: boolean
  readonly requests: bigint
  /** Rows that stay in the database because they were refunded. */
  readonly keptRequests: bigint
  readonly costNanos: Nanos
  /** The size of the table with its indexes. Archiving frees nearly all of it. */
  readonly bytes: bigint
}

/** Returns the months before `before` (`2026-02`) that can be archived, oldest first. Reads all of their rows. */
export async function listUsageMonths(sql: Sql, before: string): Promise<UsageMonth[]> {
  const months: UsageMonth[] = []
  for (const { month, partition, isFrozen } of await unarchivedMonths(sql, before)) {
    const figures = await queryRow<Pick<UsageMonth, 'requests' | 'keptRequests' | 'costNanos' | 'bytes'>>(
      sql,
      `SELECT count(*) AS requests, coalesce(sum(u.cost_nanos), 0)::bigint AS "costNanos", count(r.request_id) AS "keptRequests",
         pg_total_relation_size('${partition}') AS bytes
       FROM ${partition} u LEFT JOIN refund r ON r.customer_id = u.customer_id AND r.request_id = u.request_id`,
    )
    months.push({ month, isFrozen, ...figures })
  }
  return months
}

/** Returns the months before `before` (`2026-02`) that can be archived, oldest first, with their partitions. Reads no rows. */
export async function unarchivedMonths(
  sql: Sql,
  before: string,
): Promise<{ readonly month: string; readonly partition: string; readonly isFrozen: boolean }[]> {
  const { rows } = await sql.query<{ month: string; partition: string; isFrozen: boolean }>(LIST_MONTHS, [before])
  return rows
}

/**
 * Returns the first month that cannot be archived yet: `2026-10`.
 *
 * @param keepMonths how many whole months stay, besides the one that runs
 */
export async function archivableBefore(sql: Sql, keepMonths = 0): Promise<string> {
  const { month } = await queryRow<{ month: string }>(
    sql,
    `SELECT to_char(least(archivable_before(), now() AT TIME ZONE 'UTC' - make_interval(months => $1)), 'YYYY-MM') AS month`,
    [keepMonths],
  )
  return month
}

/** The archive that has a request, or undefined when its usage row is in the database or unknown. */
export async function archiveOfRequest(
  sql: Sql,
  requestId: string,
): Promise<{ readonly month: string; readonly fileName: string | null } | undefined> {
  const { rows } = await sql.query<{ month: string; fileName: string | null }>(
    `SELECT to_char(month, 'YYYY-MM') AS month, file_name AS "fileName" FROM usage_archive WHERE $1 >= from_id AND $1 < to_id`,
    [requestId],
  )
  return rows[0]
}

/**
 * The months that are not archived, each with its partition: one of usage_event, or of usage_frozen once an earlier call has
 * begun to archive it. The other partitions with such names hold the refunded rows of archived months.
 */
const LIST_MONTHS = `
SELECT to_char(m.month, 'YYYY-MM') AS month, m.partition, a.month IS NOT NULL AS "isFrozen"
FROM (
  SELECT relname AS partition, to_date(right(relname, 7), 'YYYY_MM') AS month
  FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
  WHERE (inhparent = 'usage_event'::regclass AND relname ~ '^usage_event_\\d{4}_\\d{2}$') OR inhparent = 'usage_frozen'::regclass
) m
LEFT JOIN usage_archive a USING (month)
WHERE to_char(m.month, 'YYYY-MM') < $1 AND a.archived_at IS NULL
  AND m.partition = CASE WHEN a.month IS NULL THEN usage_partition_name(m.month) ELSE frozen_partition_name(m.month) END
ORDER BY m.month`
