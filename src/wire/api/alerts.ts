import { z } from 'zod'
import {
  type AlertHistory,
  type AlertRule,
  alertChannels,
  alertKinds,
  type NewAlertRule,
} from '../../base/domain/alert-rule.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import { refusedField } from '../dialects/json/body-refusal.ts'
import { parseStrictBody } from './strict-body.ts'
import { readUsdAmount, usdAmount } from './usd-amount.ts'

/** The maximum length of a webhook URL. Longer URLs are not in practical use. */
const TARGET_CHARACTERS_MAX = 2_048
const thresholdText = 'USD above zero and below a billion, such as 5 or "0.50", with at most 9 decimals'
const targetText = `text of 1 to ${TARGET_CHARACTERS_MAX} characters`

/** The body of `POST /v1/alerts`. Each `error` text completes the sentence "`param` must be ...". */
export const alertRequest = z
  .strictObject({
    kind: z.enum(alertKinds, { error: `one of ${alertKinds.join(', ')}` }).describe('The event that raises the alert.'),
    threshold_usd: usdAmount(thresholdText)
      .nullish()
      .describe(
        'Required for `low_balance`, which is raised when the balance falls below this amount, and for `large_charge`, which is raised by a charge of at least this amount (0.10 or more). Not allowed for other kinds. USD with at most 9 decimals.',
      ),
    channel: z
      .enum(alertChannels, { error: `one of ${alertChannels.join(', ')}` })
      .describe('How the alert is delivered.'),
    target: z
      .string({ error: targetText })
      .min(1, { error: targetText })
      .max(TARGET_CHARACTERS_MAX, { error: targetText })
      .nullish()
      .describe(
        'For `webhook`: the https URL, up to 2,048 characters; required. For `email`: your own address, which is the default.',
      ),
  })
  .meta({
    id: 'AlertRequest',
    examples: [
      { kind: 'low_balance', threshold_usd: 5, channel: 'webhook', target: 'https://example.com/hooks/switchyard' },
    ],
  })

const time = z.iso.datetime()
const ruleFields = {
  id: z.uuid().describe('UUID of the alert rule.'),
  object: z.literal('alert'),
  kind: z.enum(alertKinds).describe('The event that raises the alert.'),
  threshold_usd: z.number().nullable().describe('USD; null for kinds without a threshold.'),
  channel: z.enum(alertChannels).describe('How the alert is delivered.'),
  target: z
    .string()
    .describe(
      'Webhook URL or e-mail address. A key without the scope `manage` sees only the scheme and host of a URL, since the rest may be a secret.',
    ),
  created_at: time.describe('ISO 8601 in UTC.'),
}
const ruleExample = {
  id: '0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  object: 'alert',
  kind: 'low_balance',
  threshold_usd: 5,
  channel: 'webhook',
  target: 'https://example.com/hooks/switchyard',
  created_at: '2026-11-21T09:42:50.203Z',
}

const alertIdExample = '917ea1cc-d213-4093-8240-687567e98a0f'

const alertRule = z.object(ruleFields).meta({ id: 'AlertRule', examples: [ruleExample] })

export const alertList = z
  .object({ object: z.literal('list'), data: z.array(alertRule) })
  .meta({ id: 'AlertList', examples: [{ object: 'list', data: [ruleExample] }] })

export const createdAlert = z
  .object({
    ...ruleFields,
    secret: z
      .string()
      .nullable()
      .describe('Secret that signs the webhooks. It is shown only this once; null for e-mail.'),
  })
  .meta({ id: 'CreatedAlert', examples: [{ ...ruleExample, secret: 'whsec_EXAMPLE' }] })

export const deletedAlert = z
  .object({ id: z.uuid(), object: z.literal('alert'), deleted: z.literal(true) })
  .meta({ id: 'DeletedAlert', examples: [{ id: ruleExample.id, object: 'alert', deleted: true }] })

export const testedAlert = z
  .object({
    id: z.uuid().describe('UUID of the alert rule.'),
    alert_id: z.uuid().describe('UUID of the test alert; also its `webhook-id` header.'),
  })
  .meta({ id: 'TestedAlert', examples: [{ id: ruleExample.id, alert_id: alertIdExample }] })

export const alertDeliveries = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        alert_id: z.uuid().describe('UUID of the alert; also its `webhook-id` header.'),
        kind: z.enum([...alertKinds, 'test']),
        created_at: time,
        delivered_at: time.nullable().describe('Null until an attempt succeeds.'),
        attempts: z.array(
          z.object({
            attempt: z.int().positive().describe('Number of the attempt, from 1.'),
            at: time,
            outcome: z
              .enum(['delivered', 'logged', 'failed'])
              .describe('`logged`: written to the log, because no mail server is configured.'),
            status: z.int().nullable().describe('HTTP status of the receiver; null if there was no answer.'),
            error: z.string().nullable().describe('Why the attempt failed.'),
          }),
        ),
      }),
    ),
  })
  .meta({
    id: 'AlertDeliveries',
    examples: [
      {
        object: 'list',
        data: [
          {
            alert_id: alertIdExample,
            kind: 'low_balance',
            created_at: '2026-11-21T16:24:21.541Z',
            delivered_at: '2026-11-21T16:24:32.107Z',
            attempts: [
              { attempt: 1, at: '2026-11-21T16:24:22.018Z', outcome: 'failed', status: 500, error: 'HTTP status 500' },
              { attempt: 2, at: '2026-11-21T16:24:32.107Z', outcome: 'delivered', status: 200, error: null },
            ],
          },
        ],
      },
    ],
  })

/**
 * Parses the body of `POST /v1/alerts`. Throws ApiError `invalid_json`, `missing_parameter` or
 * `invalid_value`, with the `param` at fault.
 */
export function parseAlertRequest(bytes: Buffer): NewAlertRule {
  const { kind, threshold_usd, channel, target } = parseStrictBody(bytes, alertRequest, 'an alert rule')
  return { kind, thresholdNanos: parseThreshold(threshold_usd ?? null), channel, target: target ?? null }
}

function parseThreshold(amount: number | string | null): Nanos | null {
  if (amount === null) return null
  const nanos = readUsdAmount(amount)
  if (nanos !== undefined) return nanos
  throw refusedField('threshold_usd', thresholdText, amount)
}

/**
 * Renders an alert rule. `origin` hides the path and query of a webhook URL, which are often the only secret
 * that protects it.
 */
export function showAlert(rule: AlertRule, targetPart: 'whole' | 'origin') {
  const { ruleId, kind, thresholdNanos, channel, target, createdAt } = rule
  return {
    id: ruleId,
    object: 'alert',
    kind,
    threshold_usd: thresholdNanos === null ? null : usd(thresholdNanos),
    channel,
    target: channel === 'webhook' && targetPart === 'origin' ? new URL(target).origin : target,
    created_at: createdAt.toISOString(),
  }
}

export function showDeliveries(history: readonly AlertHistory[]) {
  return {
    object: 'list',
    data: history.map(({ alertId, kind, createdAt, deliveredAt, attempts }) => ({
      alert_id: alertId,
      kind,
      created_at: createdAt.toISOString(),
      delivered_at: deliveredAt?.toISOString() ?? null,
      attempts: attempts.map(({ attempt, at, outcome, status, error }) => ({
        attempt,
        at: at.toISOString(),
        outcome,
        status,
        error,
      })),
    })),
  }
}
