import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { AWAITS_ROLE } from '../identity/people/invited-roles.ts'
import type { Overview } from '../wire/api/operator/overview.ts'

type Kind = Overview['waiting'][number]['kind']

/** Manual top-ups that are older were forgotten. */
const TOP_UP_AGE_MS_MAX = 90 * DAY_MS

/** What waits for an operator, where it is decided, and how to count it. $1 is the time, $2 that of the oldest top-up. */
const sources: Readonly<Record<Exclude<Kind, 'models'>, { readonly link: string; readonly count: string }>> = {
  hosters_verified: {
    link: '/operator/hosters',
    count: "FROM hoster WHERE state = 'verified'",
  },
  hosters_joining: {
    link: '/operator/hosters',
    count: "FROM hoster WHERE state IN ('applied', 'pending')",
  },
  appeals: {
    link: '/operator/hosters',
    count: 'FROM hoster_appeal WHERE answered_at IS NULL',
  },
  promotion_reviews: {
    link: '/operator/payouts',
    count: "FROM promotion_review WHERE state = 'waiting'",
  },
  payouts_prepared: {
    link: '/operator/payouts',
    count: "FROM payout_batch WHERE state = 'prepared'",
  },
  payouts_approved: {
    link: '/operator/payouts',
    count: "FROM payout_batch WHERE state = 'approved'",
  },
  top_ups: {
    link: '/operator/money',
    count: "FROM payment WHERE driver = 'manual' AND state = 'open' AND created_at > $2::timestamptz",
  },
  grants: {
    link: '/operator/grants',
    count: "FROM grant_request WHERE state = 'waiting'",
  },
  role_changes: {
    link: '/operator/people',
    count: "FROM role_change WHERE state = 'waiting'",
  },
  people_without_role: {
    link: '/operator/people',
    count: `FROM person WHERE invited_by IS NOT NULL AND disabled_at IS NULL AND ${AWAITS_ROLE}`,
  },
  invitations: {
    link: '/operator/people',
    count:
      "FROM person_token WHERE purpose = 'invite' AND customer_id IS NULL AND hoster_id IS NULL AND expires_at > $1::timestamptz",
  },
}

const COUNTS = `SELECT ${Object.entries(sources)
  .map(([kind, { count }]) => `(SELECT count(*)::int ${count}) AS ${kind}`)
  .join(', ')}`

export type WaitingCounts = Readonly<Record<Exclude<Kind, 'models'>, number>>

/** Counts what waits for an operator, besides the models of hosters. */
export function countWaiting(sql: Sql, nowMs: number): Promise<WaitingCounts> {
  return queryRow<WaitingCounts>(sql, COUNTS, [new Date(nowMs), new Date(nowMs - TOP_UP_AGE_MS_MAX)])
}

/** Shows what waits, and leaves out what there is nothing of. @param models of hosters that wait for a decision */
export function showWaiting(counts: WaitingCounts, models: number): Overview['waiting'] {
  const counted = Object.entries(sources) as [keyof WaitingCounts, { link: string }][]
  return [
    { kind: 'models' as const, count: models, link: '/operator/models' },
    ...counted.map(([kind, { link }]) => ({ kind, count: counts[kind], link })),
  ].filter(({ count }) => count > 0)
}
