import type { Sql } from '../../base/db/pool.ts'
import { type AlertKind, LARGE_CHARGE_NANOS_MIN } from '../../base/domain/alert-rule.ts'
import type { Nanos } from '../../base/domain/money.ts'

/**
 * The daily spend cap of each account tier, for customers without their own cap. `fallback` is for tiers that
 * are no longer configured.
 */
export interface TierCaps {
  readonly byTier: ReadonlyMap<string, Nanos>
  readonly fallback: Nanos
}

/** What a check looks for. */
export interface AlertCheck {
  /** This node checks the database now. Each node checks its own refusals. */
  readonly isClaimed: boolean
  readonly caps: TierCaps
  /** Customers with a request that was refused by the daily cap since the last check. */
  readonly cappedCustomers: readonly string[]
  /** Keys with a request that was refused by their limit since the last check, and how long ago the refusal was. */
  readonly refusedKeysAgoMs: ReadonlyMap<string, number>
  /** The lowest request id to check for large charges. */
  readonly sinceRequestId: string
}

/** How each kind of alert is found: a kind without a query does not compile. */
const detectors: Record<AlertKind, (sql: Sql, check: AlertCheck) => Promise<string[]> | null> = {
  low_balance: (sql, { isClaimed }) => (isClaimed ? detectLowBalances(sql) : null),
  daily_spend: (sql, { isClaimed, caps, cappedCustomers }) =>
    isClaimed || cappedCustomers.length > 0 ? detectDailySpend(sql, caps, cappedCustomers) : null,
  key_limit_reached: (sql, { refusedKeysAgoMs }) =>
    refusedKeysAgoMs.size > 0 ? detectKeyLimits(sql, refusedKeysAgoMs) : null,
  large_charge: (sql, { isClaimed, sinceRequestId }) => (isClaimed ? detectLargeCharges(sql, sinceRequestId) : null),
}

/** Creates the alerts of all kinds and returns their ids. */
export async function detectAlerts(sql: Sql, check: AlertCheck): Promise<string[]> {
  const found: string[] = []
  for (const detect of Object.values(detectors)) found.push(...((await detect(sql, check)) ?? []))
  return found
}

/** The most alerts a day that one rule raises for large charges. */
const LARGE_CHARGES_PER_DAY_MAX = 50

// The accounts of the customers with rules of the kind $1. Reads the same columns as readBalance, so the balance
// agrees with GET /v1/usage.
const ACCOUNT = `
account AS (
  SELECT b.customer_id, b.posted_nanos - s.settled AS balance_nanos, greatest(b.day, today) AS day,
    CASE WHEN b.day >= today THEN b.day_spent_nanos + s.settled_today ELSE 0 END AS spent_nanos
  FROM (SELECT DISTINCT customer_id FROM alert_rule WHERE kind = $1 AND disabled_at IS NULL) w
  JOIN balance b USING (customer_id),
  (SELECT (now() AT TIME ZONE 'UTC')::date AS today) t,
  LATERAL (
    SELECT coalesce(sum(l.settled_nanos), 0)::bigint AS settled, coalesce(sum(l.settled_nanos) FILTER (WHERE l.cap_day = b.day), 0)::bigint AS settled_today
    FROM lease l WHERE l.customer_id = b.customer_id AND l.slots IS NOT NULL
  ) s
)`

const LOW_BALANCE = `
WITH ${ACCOUNT}, crossed AS (
  UPDATE alert_rule r SET is_below = true, crossings = r.crossings + 1
  FROM account a
  WHERE r.customer_id = a.customer_id AND r.kind = $1 AND r.disabled_at IS NULL AND NOT r.is_below AND a.balance_nanos < r.threshold_nanos
  RETURNING r.rule_id, r.crossings, r.threshold_nanos, a.balance_nanos
), recovered AS (
  UPDATE alert_rule r SET is_below = false
  FROM account a
  WHERE r.customer_id = a.customer_id AND r.kind = $1 AND r.disabled_at IS NULL AND r.is_below AND a.balance_nanos >= r.threshold_nanos
)
INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts)
SELECT gen_random_uuid(), rule_id, $1, crossings::text,
  jsonb_build_object('balance_nanos', balance_nanos::text, 'threshold_nanos', threshold_nanos::text)
FROM crossed
ON CONFLICT (rule_id, occurrence) DO NOTHING
RETURNING alert_id`

/**
 * Creates alerts for balances that fell below the threshold of a rule since the last check. A balance that
 * rises above it may trigger again.
 */
async function detectLowBalances(sql: Sql): Promise<string[]> {
  return alertIds(await sql.query<AlertId>(LOW_BALANCE, ['low_balance']))
}

const DAILY_SPEND = `
WITH ${ACCOUNT}
INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts)
SELECT gen_random_uuid(), r.rule_id, $1, a.day || '/' || step.percent, jsonb_build_object(
  'day', a.day, 'percent', step.percent, 'spent_nanos', a.spent_nanos::text, 'cap_nanos', cap.nanos::text)
FROM alert_rule r
JOIN account a USING (customer_id)
JOIN customer c USING (customer_id)
LEFT JOIN unnest($2::text[], $3::bigint[]) AS t(tier, cap_nanos) ON t.tier = c.account_tier,
LATERAL (SELECT coalesce(c.daily_spend_cap_nanos, t.cap_nanos, $4) AS nanos) cap,
(VALUES (80), (100)) AS step(percent)
WHERE r.kind = $1 AND r.disabled_at IS NULL AND cap.nanos > 0
  AND (a.spent_nanos::numeric * 100 >= cap.nanos::numeric * step.percent
    -- The rest of a cap rarely covers the next request exactly, so spending stops short of 100%. A refusal then shows that the cap is reached.
    OR a.customer_id = ANY ($5::uuid[]) AND a.spent_nanos::numeric * 100 >= cap.nanos::numeric * 80)
ON CONFLICT (rule_id, occurrence) DO NOTHING
RETURNING alert_id`

/**
 * Creates alerts for customers that have spent 80% or 100% of their daily cap, each once per UTC day.
 *
 * @param refused customers with a request refused by the cap since the last check; for them 80% counts as 100%
 */
async function detectDailySpend(sql: Sql, caps: TierCaps, refused: readonly string[]): Promise<string[]> {
  const values = ['daily_spend', [...caps.byTier.keys()], [...caps.byTier.values()], caps.fallback, refused]
  return alertIds(await sql.query<AlertId>(DAILY_SPEND, values))
}

const KEY_LIMITS = `
INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts)
SELECT gen_random_uuid(), r.rule_id, r.kind, concat_ws('/', k.key_id, w.starts, k.spend_limit_nanos), jsonb_build_object(
  'key_id', k.key_id, 'key_name', k.name, 'key_hint', k.hint, 'limit_nanos', k.spend_limit_nanos::text,
  'spent_nanos', coalesce(w.spent_nanos, 0)::text, 'reset', k.limit_reset)
FROM unnest($1::uuid[], $2::float8[]) AS n(key_id, age_ms)
JOIN api_key k USING (key_id)
JOIN alert_rule r ON r.customer_id = k.customer_id AND r.kind = 'key_limit_reached' AND r.disabled_at IS NULL
JOIN balance b ON b.customer_id = k.customer_id,
LATERAL (
  SELECT ((clock_timestamp() - n.age_ms * interval '1 ms') AT TIME ZONE 'UTC')::date AS refused_on, (clock_timestamp() AT TIME ZONE 'UTC')::date AS today
) d,
LATERAL (
  SELECT starts, (SELECT s.spent_nanos FROM key_spend s WHERE s.customer_id = k.customer_id AND s.key_id = k.key_id AND s.window_start = starts)
  -- Use the day of the refusal: a new window may have begun at midnight since.
  FROM key_window_start(k.limit_reset, CASE WHEN d.refused_on < d.today THEN d.refused_on ELSE greatest(b.day, d.today) END) AS starts
) w
WHERE k.spend_limit_nanos IS NOT NULL
ON CONFLICT (rule_id, occurrence) DO NOTHING
RETURNING alert_id`

/**
 * Creates alerts for keys that have reached their spend limit, each once per window and amount of that limit.
 *
 * @param refusedAgoMs keys with a request refused by their limit since the last check, and how long ago the
 *   refusal was
 */
async function detectKeyLimits(sql: Sql, refusedAgoMs: ReadonlyMap<string, number>): Promise<string[]> {
  return alertIds(await sql.query<AlertId>(KEY_LIMITS, [[...refusedAgoMs.keys()], [...refusedAgoMs.values()]]))
}

// The smallest threshold is a literal, not a parameter, so that the planner can use the partial index.
const LARGE_CHARGES = `
INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts)
SELECT gen_random_uuid(), r.rule_id, r.kind, u.request_id::text, jsonb_build_object(
  'request_id', u.request_id, 'model', u.model_id, 'cost_nanos', u.cost_nanos::text, 'threshold_nanos', r.threshold_nanos::text,
  'key_id', u.key_id)
FROM alert_rule r, LATERAL (
  SELECT e.request_id, e.model_id, e.cost_nanos, e.key_id
  FROM usage_event e
  WHERE e.customer_id = r.customer_id AND e.cost_nanos >= ${LARGE_CHARGE_NANOS_MIN} AND e.cost_nanos >= r.threshold_nanos
    AND e.request_id >= $1 AND e.started_at >= r.created_at
    AND NOT EXISTS (SELECT FROM alert a WHERE a.rule_id = r.rule_id AND a.occurrence = e.request_id::text)
  ORDER BY e.request_id
  LIMIT greatest(0, $2 - (SELECT count(*) FROM alert a WHERE a.rule_id = r.rule_id AND a.created_at > now() - interval '1 day'))
) u
WHERE r.kind = 'large_charge' AND r.disabled_at IS NULL
ON CONFLICT (rule_id, occurrence) DO NOTHING
RETURNING alert_id`

/**
 * Creates alerts for single charges of at least the threshold of a rule, for requests that began after the
 * rule was created.
 *
 * @param sinceRequestId the lowest request id to check: a day back, because the charges of a dead node may be
 *   settled that late
 */
async function detectLargeCharges(sql: Sql, sinceRequestId: string): Promise<string[]> {
  return alertIds(await sql.query<AlertId>(LARGE_CHARGES, [sinceRequestId, LARGE_CHARGES_PER_DAY_MAX]))
}

interface AlertId {
  readonly alert_id: string
}

function alertIds({ rows }: { rows: readonly AlertId[] }): string[] {
  return rows.map(row => row.alert_id)
}
