import { z } from 'zod'
import { bodyRefusal, invalidField } from '../dialects/json/body-refusal.ts'
import { parseJsonObject } from '../dialects/json/parse-json-object.ts'
import {
  type AlertHistory,
  type AlertRule,
  alertChannels,
  alertKinds,
  type NewAlertRule,
} from '../domain/alert-rule.ts'
import { type Nanos, usd } from '../domain/money.ts'
import { readUsdAmount } from './usd-amount.ts'

/** Of a webhook URL, as long as the longest that are in use. */
const TARGET_CHARACTERS_MAX = 2_048
const thresholdText = 'USD above zero and below a billion, such as 5 or "0.50", with at most 9 decimals'
const targetText = `text of 1 to ${TARGET_CHARACTERS_MAX} characters`

/** Body of POST /v1/alerts. `error` texts complete the sentence "`param` must be ...". */
export const alertRequest = z
  .strictObject({
    kind: z.enum(alertKinds, { error: `one of ${alertKinds.join(', ')}` }).describe('What to be told of.'),
    threshold_usd: z
      .union([z.number(), z.string()], { error: thresholdText })
      .nullish()
      .describe(
        'Of `low_balance`: told when the balance falls below it. Of `large_charge`: from this charge on, at least 0.10.',
      ),
    channel: z.enum(alertChannels, { error: `one of ${alertChannels.join(', ')}` }),
    target: z
      .string({ error: targetText })
      .min(1, { error: targetText })
      .max(TARGET_CHARACTERS_MAX, { error: targetText })
      .nullish()
      .describe('Of `webhook`: the https URL. Of `email` it may be left out; it is your own address.'),
  })
  .meta({
    id: 'AlertRequest',
    examples: [
      { kind: 'low_balance', threshold_usd: 5, channel: 'webhook', target: 'https://example.com/hooks/switchyard' },
    ],
  })

const time = z.iso.datetime()
const ruleFields = {
  id: z.uuid(),
  object: z.literal('alert'),
  kind: z.enum(alertKinds),
  threshold_usd: z.number().nullable(),
  channel: z.enum(alertChannels),
  target: z
    .string()
    .describe(
      'Where it is told. Of a webhook a key without the scope `manage` sees scheme and host alone: the rest may be a secret.',
    ),
  created_at: time,
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

const alertRule = z.object(ruleFields).meta({ id: 'AlertRule', examples: [ruleExample] })

export const alertList = z.object({ object: z.literal('list'), data: z.array(alertRule) }).meta({ id: 'AlertList' })

export const createdAlert = z
  .object({
    ...ruleFields,
    secret: z.string().nullable().describe('Signs the webhooks; shown this once. Null for e-mail.'),
  })
  .meta({ id: 'CreatedAlert', examples: [{ ...ruleExample, secret: 'whsec_EXAMPLE' }] })

export const deletedAlert = z
  .object({ id: z.uuid(), object: z.literal('alert'), deleted: z.literal(true) })
  .meta({ id: 'DeletedAlert' })

export const testedAlert = z
  .object({
    id: z.uuid().describe('The rule.'),
    alert_id: z.uuid().describe('The test alert, which is also the webhook-id.'),
  })
  .meta({ id: 'TestedAlert' })

export const alertDeliveries = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        alert_id: z.uuid(),
        kind: z.enum([...alertKinds, 'test']),
        created_at: time,
        delivered_at: time.nullable(),
        attempts: z.array(
          z.object({
            attempt: z.int().positive(),
            at: time,
            outcome: z.enum(['delivered', 'logged', 'failed']),
            status: z.int().nullable().describe("The receiver's HTTP status."),
            error: z.string().nullable(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'AlertDeliveries' })

/** Reads the body of POST /v1/alerts. Throws `invalid_json`, and `missing_parameter` and `invalid_value` with the field. */
export function parseAlertRequest(bytes: Buffer): NewAlertRule {
  const body = parseJsonObject(bytes)
  const parsed = alertRequest.safeParse(body)
  if (!parsed.success) throw bodyRefusal(parsed.error, body, { what: 'an alert rule', schema: alertRequest })
  const { kind, threshold_usd, channel, target } = parsed.data
  return { kind, thresholdNanos: thresholdOf(threshold_usd ?? null), channel, target: target ?? null }
}

function thresholdOf(written: number | string | null): Nanos | null {
  if (written === null) return null
  const nanos = readUsdAmount(written)
  if (nanos !== undefined) return nanos
  throw invalidField('threshold_usd', thresholdText, written)
}

/** `targetShown`: `whole`, or `origin` for a reader who might post to the webhook's URL, whose path or query is often all that guards it. */
export function showAlert(rule: AlertRule, targetShown: 'whole' | 'origin') {
  const { ruleId, kind, thresholdNanos, channel, target, createdAt } = rule
  return {
    id: ruleId,
    object: 'alert',
    kind,
    threshold_usd: thresholdNanos === null ? null : usd(thresholdNanos),
    channel,
    target: channel === 'webhook' && targetShown === 'origin' ? new URL(target).origin : target,
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
