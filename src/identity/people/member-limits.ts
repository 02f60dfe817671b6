import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { KeyLimit, LimitReset } from '../../base/domain/caller.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'

/** The spend limit of a member in its current window. It covers all keys that the person made. */
export interface MemberBudget {
  /** Null: no limit. */
  readonly limitNanos: Nanos | null
  readonly limitReset: LimitReset
  /** Charged to requests that were admitted in the window; 0 without a limit. */
  readonly spentNanos: Nanos
  /** Null: never, or no limit. */
  readonly resetsAt: Date | null
}

/**
 * Sets the limit of a member on all nodes within two seconds; null removes it. With another reset than before, the
 * limit counts from now on. Run it in a transaction.
 */
export async function setMemberLimit(
  sql: Sql,
  customerId: string,
  personId: string,
  limit: KeyLimit | null,
): Promise<void> {
  // The audit compares what was spent with the highest limit so far: one that is lowered later makes no earlier charge wrong.
  await sql.query(
    `INSERT INTO member_limit AS m (customer_id, person_id, spend_limit_nanos, highest_limit_nanos, limit_reset)
     VALUES ($1, $2, $3, coalesce($3::bigint, 0), $4)
     ON CONFLICT (customer_id, person_id) DO UPDATE SET spend_limit_nanos = excluded.spend_limit_nanos,
       highest_limit_nanos = greatest(m.highest_limit_nanos, excluded.highest_limit_nanos), limit_reset = excluded.limit_reset`,
    [customerId, personId, limit?.limitNanos ?? null, limit?.reset ?? 'none'],
  )
  await bumpControlVersion(sql, 'access')
}

/** Returns the budget of a person in a customer, up to the last settled request. */
export async function readMemberBudget(
  sql: Sql,
  customerId: string,
  personId: string,
  nowMs: number,
): Promise<MemberBudget> {
  return queryRow<MemberBudget>(
    sql,
    `SELECT ${BUDGET_COLUMNS} FROM (SELECT $2::uuid AS customer_id, $3::uuid AS person_id) m ${BUDGET_JOINS}`,
    [new Date(nowMs), customerId, personId],
  )
}

/** Returns a limit as people and the audit log read it: "20 USD monthly". */
export function limitText({ limitNanos, limitReset }: Pick<MemberBudget, 'limitNanos' | 'limitReset'>): string {
  if (limitNanos === null) return 'none'
  return limitReset === 'none' ? `${usdText(limitNanos)} USD` : `${usdText(limitNanos)} USD ${limitReset}`
}

/** Select list of a `MemberBudget`. The query joins `BUDGET_JOINS`. */
export const BUDGET_COLUMNS = `ml.spend_limit_nanos AS "limitNanos", coalesce(ml.limit_reset, 'none') AS "limitReset",
  CASE WHEN ml.spend_limit_nanos IS NULL THEN 0 ELSE coalesce(ms.spent_nanos, 0) END AS "spentNanos",
  CASE WHEN ml.spend_limit_nanos IS NOT NULL THEN key_window_end(ml.limit_reset, mw.began) END AS "resetsAt"`

/** Follows a table `m` with `customer_id` and `person_id` in FROM. $1 is the time at which the budgets are read. */
export const BUDGET_JOINS = `
  LEFT JOIN member_limit ml ON ml.customer_id = m.customer_id AND ml.person_id = m.person_id
  LEFT JOIN balance mb ON mb.customer_id = m.customer_id
  CROSS JOIN LATERAL (
    SELECT next_window_start(ml.limit_reset, mb.day, ($1::timestamptz AT TIME ZONE 'UTC')::date) AS began
  ) mw
  LEFT JOIN member_spend ms ON ms.customer_id = m.customer_id AND ms.person_id = m.person_id AND ms.window_start = mw.began`
