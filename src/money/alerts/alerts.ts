import { randomUUID } from 'node:crypto'
import { noteAction } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Acting } from '../../base/domain/acting.ts'
import {
  type AlertHistory,
  type AlertRule,
  kindsWithThreshold,
  LARGE_CHARGE_NANOS_MIN,
  type NewAlertRule,
} from '../../base/domain/alert-rule.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { usdText } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Said } from '../../base/domain/said.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'
import { sealSecret } from '../../base/secrets/sealed-secret.ts'
import { parseOutboundUrl } from '../../wire/egress/outbound-url.ts'
import {
  disableRule,
  findRule,
  insertRule,
  insertTestAlert,
  listRules,
  RULES_PER_CUSTOMER_MAX,
  readHistory,
} from './alert-store.ts'
import { enqueueDeliveries } from './enqueue-deliveries.ts'
import { mintWebhookSecret } from './post-webhook.ts'

/** The customer that owns alert rules, with its own e-mail address. */
export interface AlertOwner {
  readonly customerId: string
  readonly email: string
}

/**
 * Manages the alert rules of one customer at a time; rules of other customers are not found. Each change is in the
 * audit log. Throws ApiError.
 */
export interface Alerts {
  list(owner: AlertOwner): Promise<AlertRule[]>
  /** Adds a rule. The secret signs its webhooks and cannot be read again. */
  add(owner: AlertOwner, rule: NewAlertRule, by: Acting): Promise<AddedRule>
  remove(owner: AlertOwner, ruleId: string, by: Acting): Promise<AlertRule>
  /** Queues a test alert and returns its id. */
  test(owner: AlertOwner, ruleId: string): Promise<string>
  /** Returns the last 50 alerts, newest first. */
  history(owner: AlertOwner, ruleId: string): Promise<AlertHistory[]>
}

export interface AddedRule {
  readonly rule: AlertRule
  /** `whsec_...`; null for e-mail. */
  readonly secret: string | null
}

const TESTS_PER_HOUR = 10
const HISTORY_MAX = 50

export function createAlerts(deps: { pool: Pool; masterKeys: SealingKeys; allowPrivateUrls: boolean }): Alerts {
  const sql: Sql = { query: (statement, values) => deps.pool.query<never>(statement, values).catch(refuse) }
  /**
   * Serialises the work of each customer, so that concurrent calls cannot exceed the limits of rules and
   * tests.
   */
  const serialized = <T>({ customerId }: Pick<AlertOwner, 'customerId'>, work: (sql: Sql) => Promise<T>) =>
    transaction(deps.pool, async sql => {
      // "syal" in ASCII. The role that serves requests cannot lock the row of the customer.
      await sql.query(`SELECT pg_advisory_xact_lock(x'7379616c'::int, hashtext($1))`, [customerId])
      return work(sql)
    }).catch(refuse)
  return {
    list: ({ customerId }) => listRules(sql, customerId),
    async add(owner, rule, by) {
      // Mail to another address would be unsolicited.
      if (rule.channel === 'email' && rule.target !== null && rule.target.toLowerCase() !== owner.email.toLowerCase()) {
        throw invalid('target', sayRefusal('refusal.alert_to_yourself', { email: owner.email }))
      }
      return serialized(owner, async sql => {
        const added = await addRule(sql, owner, rule, deps)
        await noteRule(sql, by, 'alert.added', added.rule)
        return added
      })
    },
    remove: ({ customerId }, ruleId, by) =>
      transaction(deps.pool, async sql => {
        const rule = await requireRule(sql, ruleId, customerId)
        await disableRule(sql, rule.ruleId)
        await noteRule(sql, by, 'alert.removed', rule)
        return rule
      }).catch(refuse),
    async test({ customerId }, ruleId) {
      const rule = await requireRule(sql, ruleId, customerId)
      const alertId = await serialized(rule, async sql => {
        const alertId = await insertTestAlert(sql, rule, TESTS_PER_HOUR)
        if (alertId !== undefined) await enqueueDeliveries(sql, [alertId])
        return alertId
      })
      if (alertId !== undefined) return alertId
      throw new ApiError('rate_limit_exceeded', {
        message: sayRefusal('refusal.too_many_test_alerts', { count: TESTS_PER_HOUR }),
        retryAfterS: 600,
      })
    },
    async history({ customerId }, ruleId) {
      const rule = await requireRule(sql, ruleId, customerId)
      return readHistory(sql, rule.ruleId, HISTORY_MAX)
    },
  }
}

/** Adds a rule with any target. Throws ApiError `invalid_value` or `missing_parameter` with the reason. */
export async function addRule(
  sql: Sql,
  { customerId, email }: AlertOwner,
  { kind, thresholdNanos, channel, target }: NewAlertRule,
  { masterKeys, allowPrivateUrls }: { masterKeys: SealingKeys; allowPrivateUrls: boolean },
): Promise<AddedRule> {
  const hasThreshold = kindsWithThreshold.includes(kind)
  if (hasThreshold && thresholdNanos === null) {
    const message = sayRefusal('refusal.threshold_missing', { kind })
    throw new ApiError('missing_parameter', { param: 'threshold_usd', message })
  }
  if (!hasThreshold && thresholdNanos !== null)
    throw invalid('threshold_usd', sayRefusal('refusal.threshold_not_possible', { kind }))
  if (kind === 'large_charge' && thresholdNanos !== null && thresholdNanos < LARGE_CHARGE_NANOS_MIN) {
    throw invalid('threshold_usd', sayRefusal('refusal.threshold_too_low', { min: usdText(LARGE_CHARGE_NANOS_MIN) }))
  }
  const ruleId = randomUUID()
  const secret = channel === 'webhook' ? mintWebhookSecret() : null
  const rule = await insertRule(sql, {
    ruleId,
    customerId,
    kind,
    thresholdNanos,
    channel,
    target: channel === 'webhook' ? webhookUrl(target, allowPrivateUrls) : (target ?? email),
    secretSealed:
      secret === null ? null : sealSecret(masterKeys, secret, { ownerId: ruleId, purpose: 'webhook_secret' }),
  })
  if (!rule) throw invalid('kind', sayRefusal('refusal.too_many_alerts', { count: RULES_PER_CUSTOMER_MAX }))
  return { rule, secret }
}

/** Notes a change in the audit log. Call it last in a transaction. The path of a webhook may be a secret. */
export async function noteRule(
  sql: Sql,
  { personId, keyId, address }: Acting,
  action: 'alert.added' | 'alert.removed',
  { ruleId, customerId, kind, thresholdNanos, channel, target }: AlertRule,
): Promise<void> {
  await noteAction(sql, {
    ...{ action, personId, keyId, address, customerId },
    subject: ruleId,
    detail: {
      ...{ kind, channel, target: channel === 'webhook' ? new URL(target).origin : target },
      threshold_usd: thresholdNanos === null ? null : usdText(thresholdNanos),
    },
  })
}

function webhookUrl(target: string | null, allowPrivate: boolean): string {
  if (target === null) {
    throw new ApiError('missing_parameter', { param: 'target', message: sayRefusal('refusal.webhook_needs_target') })
  }
  const url = parseOutboundUrl(target, { allowPrivate, allowQuery: true })
  if (typeof url === 'string') throw invalid('target', sayRefusal('refusal.url_refused', { why: url }))
  return url.href
}

async function requireRule(sql: Sql, ruleId: string, customerId: string): Promise<AlertRule> {
  const rule = await findRule(sql, ruleId, customerId)
  if (rule) return rule
  throw new ApiError('not_found', { message: sayRefusal('refusal.no_alert') })
}

function invalid(param: string, message: Said): ApiError {
  return new ApiError('invalid_value', { param, message })
}

function refuse(thrown: unknown): never {
  refuseOutage(thrown, 'The database does not answer. Retry later.')
}
