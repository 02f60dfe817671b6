import { z } from 'zod'
import { type KeyScope, keyScopes, type LimitReset, limitResets } from '../../base/domain/caller.ts'
import type { KeyDefaults } from '../../base/domain/chat-job.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import type { KeyUse } from '../../base/domain/spend.ts'
import { keyDefaults } from './key-defaults.ts'

/** A key without its secret. */
export interface ListedKey {
  readonly keyId: string
  readonly name: string
  readonly hint: string
  readonly limitNanos: Nanos | null
  readonly limitReset: LimitReset
  readonly allowedModels: readonly string[] | null
  readonly scopes: readonly KeyScope[]
  readonly label: string | null
  readonly defaults: KeyDefaults | null
  readonly recordsContent: boolean
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly pausedAt: Date | null
  readonly formerHint: string | null
  readonly formerExpiresAt: Date | null
  readonly isPlayground: boolean
  readonly madeBy: string | null
}

const usdAmount = z.number().nonnegative().describe('USD.')
const time = z.string().describe('ISO 8601 in UTC.')
const fields = {
  id: z.string().describe('UUID of the key.'),
  object: z.literal('key'),
  name: z.string().describe('What the key is for.'),
  hint: z.string().describe('First ten and last four characters of the key.'),
  created_at: time,
  expires_at: time.nullable().describe('When the key stops working, ISO 8601 in UTC; null if never.'),
  scopes: z
    .array(z.enum(keyScopes))
    .describe(
      'With `manage`, the key can create, list, change and delete the keys of its customer and change its alerts.',
    ),
  allowed_models: z.array(z.string()).nullable().describe('Models that the key may use; null if all.'),
  limit_usd: usdAmount
    .nullable()
    .describe('Maximum the key may spend in each window of `limit_reset`, in USD; null if it has no limit of its own.'),
  limit_reset: z
    .enum(limitResets)
    .describe(
      'When the spent amount returns to zero: `daily` at 00:00 UTC, `weekly` on Monday, `monthly` on the first; `none` if never.',
    ),
  spent_usd: usdAmount
    .nullable()
    .describe('Charges that count against `limit_usd` in its current window, in USD; null without a limit.'),
  limit_resets_at: time
    .nullable()
    .describe('When the spent amount returns to zero, ISO 8601 in UTC; null if never or without a limit.'),
  last_used_on: z
    .string()
    .nullable()
    .describe('UTC day of the last request that ended, YYYY-MM-DD; null if there was none.'),
  label: z
    .string()
    .nullable()
    .describe('Label of requests without the header `x-switchyard-label`, for the spend by label; null if none.'),
  paused_at: time.nullable().describe('Since when the key is paused and refused with 403; null if it is not.'),
  former_key: z
    .object({ hint: z.string(), expires_at: time })
    .nullable()
    .describe('The key that this one has replaced, while that still works, without scopes; null without one.'),
  is_playground: z.boolean().describe('Whether the console made the key for its playground.'),
  made_by: z
    .string()
    .nullable()
    .describe(
      'E-mail address of the person who made the key in the console, or replaced it last; null for other keys.',
    ),
  defaults: keyDefaults,
  record_content: z
    .boolean()
    .describe(
      'Whether prompts and answers of the key are recorded, if the operator allows it; never with `privacy_mode`.',
    ),
  usage: z
    .object({ today_usd: usdAmount, week_usd: usdAmount, month_usd: usdAmount, total_usd: usdAmount })
    .describe(
      'Charges of this key in USD: since 00:00 UTC of today, of Monday, of the first of the month, and in total.',
    ),
}
const listedExample = {
  id: '0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
  object: 'key',
  name: 'bot',
  hint: 'sk-sy-Ab3d…x9Zk',
  created_at: '2026-11-21T09:30:00.000Z',
  expires_at: null,
  scopes: [],
  allowed_models: ['llama-3.3-70b'],
  limit_usd: 5,
  limit_reset: 'monthly',
  spent_usd: 1.7519,
  limit_resets_at: '2026-12-01T00:00:00.000Z',
  last_used_on: '2026-11-21',
  label: 'support-bot',
  paused_at: null,
  former_key: { hint: 'sk-sy-Pq7r…k2Lm', expires_at: '2026-11-23T09:30:00.000Z' },
  is_playground: false,
  made_by: 'ada@example.com',
  defaults: { privacy_mode: true },
  record_content: false,
  usage: { today_usd: 0.0125, week_usd: 0.81, month_usd: 1.7519, total_usd: 6.2 },
} as const

export const key = z.object(fields).meta({ id: 'Key', examples: [listedExample] })
export type Key = z.infer<typeof key>

export const keyFoundByItself = z
  .object({
    ...fields,
    is_former: z.boolean().describe('Whether the text is the `former_key`, which the key has replaced.'),
  })
  .meta({ id: 'KeyFoundByItself', examples: [{ ...listedExample, is_former: false }] })
export type KeyFoundByItself = z.infer<typeof keyFoundByItself>

export const keyList = z
  .object({
    object: z.literal('list'),
    data: z.array(key),
    allows_content: z.boolean().describe('Whether the operator allows keys to record prompts and answers.'),
  })
  .meta({ id: 'KeyList', examples: [{ object: 'list', data: [listedExample], allows_content: false }] })

export type KeyList = z.infer<typeof keyList>

export const issuedKey = z
  .object({ ...fields, key: z.string().describe('The secret key. It is shown only this once.') })
  .meta({
    id: 'IssuedKey',
    examples: [
      {
        ...listedExample,
        spent_usd: 0,
        last_used_on: null,
        usage: { today_usd: 0, week_usd: 0, month_usd: 0, total_usd: 0 },
        key: 'sk-sy-EXAMPLE',
      },
    ],
  })

export const deletedKey = z
  .object({ id: z.string(), object: z.literal('key'), deleted: z.literal(true) })
  .meta({ id: 'DeletedKey', examples: [{ id: listedExample.id, object: 'key', deleted: true }] })

const count = z.int().nonnegative()

/** The answer of `GET /v1/key`. */
export const keyReport = z
  .object({
    ...fields,
    customer: z.string().describe("The customer's e-mail address."),
    tier: z.string().describe('Account tier of the customer. It sets the limits that all keys of the customer share.'),
    limit_remaining_usd: usdAmount
      .nullable()
      .describe(
        'Remaining part of `limit_usd`, in USD, including money held for running requests; null without a limit.',
      ),
    member_limit: z
      .object({
        email: z.string().describe('The member who made the key.'),
        limit_usd: usdAmount.describe(
          'Maximum that all keys of the member may spend in each window of `limit_reset`, in USD.',
        ),
        limit_reset: z.enum(limitResets),
        spent_usd: usdAmount.describe('Charges that count against the limit in its current window, in USD.'),
        remaining_usd: usdAmount.describe('Including money held for running requests.'),
        resets_at: time.nullable(),
      })
      .nullable()
      .describe('The spend limit of the member who made the key; null without one.'),
    rate_limits: z
      .object({
        limit_per_minute: count,
        limit_per_day: count,
        remaining_this_minute: count,
        remaining_today: count,
      })
      .describe('Limits of the customer, which all its keys share.'),
  })
  .meta({
    id: 'KeyReport',
    examples: [
      {
        ...listedExample,
        customer: 'ada@example.com',
        tier: 'standard',
        limit_remaining_usd: 3.2481,
        member_limit: {
          email: 'ada@example.com',
          limit_usd: 20,
          limit_reset: 'monthly',
          spent_usd: 4.1,
          remaining_usd: 15.9,
          resets_at: '2026-12-01T00:00:00.000Z',
        },
        rate_limits: {
          limit_per_minute: 300,
          limit_per_day: 50000,
          remaining_this_minute: 298,
          remaining_today: 49120,
        },
      },
    ],
  })
export type KeyReport = z.infer<typeof keyReport>

export function showKey(listed: ListedKey, use: KeyUse): Key {
  return {
    id: listed.keyId,
    object: 'key',
    name: listed.name,
    hint: listed.hint,
    created_at: listed.createdAt.toISOString(),
    expires_at: listed.expiresAt?.toISOString() ?? null,
    scopes: [...listed.scopes],
    allowed_models: listed.allowedModels === null ? null : [...listed.allowedModels],
    limit_usd: listed.limitNanos === null ? null : usd(listed.limitNanos),
    limit_reset: listed.limitReset,
    spent_usd: listed.limitNanos === null ? null : usd(use.windowNanos),
    limit_resets_at: use.windowEndsAt?.toISOString() ?? null,
    last_used_on: use.lastUsedOn,
    label: listed.label,
    paused_at: listed.pausedAt?.toISOString() ?? null,
    former_key:
      listed.formerHint === null || listed.formerExpiresAt === null
        ? null
        : { hint: listed.formerHint, expires_at: listed.formerExpiresAt.toISOString() },
    is_playground: listed.isPlayground,
    made_by: listed.madeBy,
    defaults: (listed.defaults ?? {}) as Key['defaults'],
    record_content: listed.recordsContent,
    usage: {
      today_usd: usd(use.todayNanos),
      week_usd: usd(use.weekNanos),
      month_usd: usd(use.monthNanos),
      total_usd: usd(use.totalNanos),
    },
  }
}
