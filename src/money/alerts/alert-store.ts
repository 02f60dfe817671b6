import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import type { AlertAttempt, AlertHistory, AlertRule, NewAlertRule } from '../../base/domain/alert-rule.ts'
import { groupBy } from '../../base/runtime/collections.ts'
import { UUID } from '../../base/runtime/uuid.ts'

/** More than a customer needs, and few enough that checking all rules stays fast. */
export const RULES_PER_CUSTOMER_MAX = 20

const RULE_COLUMNS = `r.rule_id AS "ruleId", r.customer_id AS "customerId", r.kind, r.threshold_nanos AS "thresholdNanos", r.channel, r.target,
  r.created_at AS "createdAt"`

/** Adds a rule. Returns undefined when the customer has the maximum number of rules. */
export async function insertRule(
  sql: Sql,
  rule: Omit<NewAlertRule, 'target'> & {
    readonly ruleId: string
    readonly customerId: string
    readonly target: string
    readonly secretSealed: Buffer | null
  },
): Promise<AlertRule | undefined> {
  const { rows } = await sql.query<AlertRule>(
    `INSERT INTO alert_rule AS r (rule_id, customer_id, kind, threshold_nanos, channel, target, secret_sealed)
     SELECT $1, $2, $3, $4, $5, $6, $7
     WHERE (SELECT count(*) FROM alert_rule WHERE customer_id = $2 AND disabled_at IS NULL) < $8
     RETURNING ${RULE_COLUMNS}`,
    [
      rule.ruleId,
      rule.customerId,
      rule.kind,
      rule.thresholdNanos,
      rule.channel,
      rule.target,
      rule.secretSealed,
      RULES_PER_CUSTOMER_MAX,
    ],
  )
  return rows[0]
}

/** Returns the active rules of one customer, or of all (`customerId` null), oldest first. */
export async function listRules(sql: Sql, customerId: string | null): Promise<(AlertRule & { email: string })[]> {
  const { rows } = await sql.query<AlertRule & { email: string }>(
    `SELECT ${RULE_COLUMNS}, c.email FROM alert_rule r JOIN customer c USING (customer_id)
     WHERE r.disabled_at IS NULL AND ($1::uuid IS NULL OR r.customer_id = $1) ORDER BY r.created_at, r.rule_id`,
    [customerId],
  )
  return rows
}

/** Finds an active rule of one customer, or of any (`customerId` null). */
export async function findRule(sql: Sql, ruleId: string, customerId: string | null): Promise<AlertRule | undefined> {
  // Do not query invalid ids: PostgreSQL refuses text that contains NUL.
  if (!UUID.test(ruleId)) return undefined
  const { rows } = await sql.query<AlertRule>(
    `SELECT ${RULE_COLUMNS} FROM alert_rule r
     WHERE r.rule_id = $1 AND ($2::uuid IS NULL OR r.customer_id = $2) AND r.disabled_at IS NULL`,
    [ruleId, customerId],
  )
  return rows[0]
}

/** Disables a rule. Its undelivered alerts are dropped. */
export async function disableRule(sql: Sql, ruleId: string): Promise<void> {
  await sql.query('UPDATE alert_rule SET disabled_at = now() WHERE rule_id = $1 AND disabled_at IS NULL', [ruleId])
}

/** Disables all rules of a customer. As `disableRule`. */
export async function disableRulesOf(sql: Sql, customerId: string): Promise<void> {
  await sql.query('UPDATE alert_rule SET disabled_at = now() WHERE customer_id = $1 AND disabled_at IS NULL', [
    customerId,
  ])
}

/** Erases the addresses that the alerts of a customer go to, and disables its rules. As `disableRule`. */
export async function eraseRulesOf(sql: Sql, customerId: string): Promise<void> {
  await sql.query(
    "UPDATE alert_rule SET target = 'deleted', disabled_at = coalesce(disabled_at, now()) WHERE customer_id = $1",
    [customerId],
  )
}

/**
 * Inserts a test alert of a rule and returns its id; undefined when the customer requested `perHour` test
 * alerts in the last hour.
 */
export async function insertTestAlert(sql: Sql, rule: AlertRule, perHour: number): Promise<string | undefined> {
  const alertId = randomUUID()
  const { rowCount } = await sql.query(
    `INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts)
     SELECT $1::uuid, $2, 'test', 'test/' || $1::text, '{}'
     WHERE (SELECT count(*) FROM alert a JOIN alert_rule r USING (rule_id)
            WHERE r.customer_id = $3 AND a.kind = 'test' AND a.created_at > now() - interval '1 hour') < $4`,
    [alertId, rule.ruleId, rule.customerId, perHour],
  )
  return rowCount === 1 ? alertId : undefined
}

/** Reads the last alerts of a rule, newest first, each with its attempts in order. */
export async function readHistory(sql: Sql, ruleId: string, limit: number): Promise<AlertHistory[]> {
  const { rows } = await sql.query<
    Omit<AlertHistory, 'attempts'> & { [K in keyof AlertAttempt]: AlertAttempt[K] | null }
  >(
    `SELECT a.alert_id AS "alertId", a.kind, a.created_at AS "createdAt", a.delivered_at AS "deliveredAt",
       d.attempt, d.outcome, d.status, d.error, d.at
     FROM (SELECT * FROM alert WHERE rule_id = $1 ORDER BY created_at DESC, alert_id DESC LIMIT $2) a
     LEFT JOIN alert_delivery d USING (alert_id)
     ORDER BY a.created_at DESC, a.alert_id DESC, d.attempt`,
    [ruleId, limit],
  )
  return [...groupBy(rows, row => row.alertId).values()].map(group => {
    const { alertId, kind, createdAt, deliveredAt } = group[0]
    const attempts = group.filter((row): row is typeof row & AlertAttempt => row.attempt !== null)
    return {
      alertId,
      kind,
      createdAt,
      deliveredAt,
      attempts: attempts.map(({ attempt, outcome, status, error, at }) => ({ attempt, outcome, status, error, at })),
    }
  })
}

/** An alert to deliver. */
export interface DueAlert {
  readonly alertId: string
  readonly ruleId: string
  readonly customerId: string
  readonly kind: AlertHistory['kind']
  readonly facts: Readonly<Record<string, string | number | null>>
  readonly createdAt: Date
  readonly channel: AlertRule['channel']
  readonly target: string
  readonly secretSealed: Buffer | null
}

/** Finds an alert unless it was delivered or its rule was disabled. */
export async function findDueAlert(sql: Sql, alertId: string): Promise<DueAlert | undefined> {
  const { rows } = await sql.query<DueAlert>(
    `SELECT a.alert_id AS "alertId", r.rule_id AS "ruleId", r.customer_id AS "customerId", a.kind, a.facts, a.created_at AS "createdAt",
       r.channel, r.target, r.secret_sealed AS "secretSealed"
     FROM alert a JOIN alert_rule r USING (rule_id)
     WHERE a.alert_id = $1 AND a.delivered_at IS NULL AND r.disabled_at IS NULL`,
    [alertId],
  )
  return rows[0]
}

/** Records an attempt. An attempt that did not fail marks the alert as delivered. */
export async function recordAttempt(
  sql: Sql,
  alertId: string,
  { outcome, status, error }: Pick<AlertAttempt, 'outcome' | 'status' | 'error'>,
): Promise<void> {
  await sql.query(
    `WITH tried AS (
       INSERT INTO alert_delivery (alert_id, attempt, outcome, status, error)
       SELECT $1, coalesce(max(attempt), 0) + 1, $2, $3, $4 FROM alert_delivery WHERE alert_id = $1
     )
     UPDATE alert SET delivered_at = now() WHERE alert_id = $1 AND $2 <> 'failed'`,
    [alertId, outcome, status, error],
  )
}

/** Deletes alerts and disabled rules that are more than `days` days old. Returns how many alerts were deleted. */
export async function pruneAlerts(sql: Sql, days: number): Promise<number> {
  const { rowCount } = await sql.query(`DELETE FROM alert WHERE created_at < now() - make_interval(days => $1)`, [days])
  await sql.query(
    `DELETE FROM alert_rule r WHERE disabled_at < now() - make_interval(days => $1)
     AND NOT EXISTS (SELECT FROM alert a WHERE a.rule_id = r.rule_id)`,
    [days],
  )
  return rowCount ?? 0
}
