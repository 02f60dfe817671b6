import { z } from 'zod'
import { modelId } from '../dialects/chat/chat-request-schema.ts'
import { bodyRefusal, invalidField } from '../dialects/json/body-refusal.ts'
import { parseJsonObject } from '../dialects/json/parse-json.ts'
import { type KeyLimit, type KeyScope, keyScopes, type LimitReset, limitResets } from '../domain/caller.ts'
import { AUTO_MODEL } from '../domain/chat-job.ts'
import { ApiError } from '../domain/errors.ts'
import { type Nanos, usd } from '../domain/money.ts'
import { readInstant } from '../runtime/instant.ts'
import { isPlain, PLAIN_TEXT } from '../runtime/plain-text.ts'
import { readUsdAmount } from './usd-amount.ts'

/** A key without its secret. */
export interface ListedKey {
  readonly keyId: string
  readonly name: string
  readonly hint: string
  readonly limitNanos: Nanos | null
  readonly limitReset: LimitReset
  readonly allowedModels: readonly string[] | null
  readonly scopes: readonly KeyScope[]
  readonly createdAt: Date
  readonly expiresAt: Date | null
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
    .describe('With `manage`, the key can create, list and delete the keys of its customer and change its alerts.'),
  allowed_models: z.array(z.string()).nullable().describe('Models that the key may use; null if all.'),
  limit_usd: usdAmount
    .nullable()
    .describe('Maximum the key may spend in each window of `limit_reset`, in USD; null if it has no limit of its own.'),
  limit_reset: z
    .enum(limitResets)
    .describe(
      'When the spent amount returns to zero: `daily` at 00:00 UTC, `weekly` on Monday, `monthly` on the first; `none` if never.',
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
} as const

export const key = z.object(fields).meta({ id: 'Key', examples: [listedExample] })
export type Key = z.infer<typeof key>

export const keyList = z
  .object({ object: z.literal('list'), data: z.array(key) })
  .meta({ id: 'KeyList', examples: [{ object: 'list', data: [listedExample] }] })

export const issuedKey = z
  .object({ ...fields, key: z.string().describe('The secret key. It is shown only this once.') })
  .meta({ id: 'IssuedKey', examples: [{ ...listedExample, key: 'sk-sy-EXAMPLE' }] })

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
    limit_resets_at: time
      .nullable()
      .describe('When the spent amount returns to zero, ISO 8601 in UTC; null if never or without a limit.'),
    usage: z
      .object({ today_usd: usdAmount, week_usd: usdAmount, month_usd: usdAmount, total_usd: usdAmount })
      .describe(
        'Charges of this key in USD: since 00:00 UTC of today, of Monday, of the first of the month, and in total.',
      ),
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
        limit_resets_at: '2026-12-01T00:00:00.000Z',
        usage: { today_usd: 0.0125, week_usd: 0.81, month_usd: 1.7519, total_usd: 6.2 },
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

export function showKey(listed: ListedKey): Key {
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
  }
}

// Each `error` text completes the sentence "`param` must be ...".

const nameText = 'a text of 1 to 200 characters without control characters or text direction marks'
const limitText = 'USD above zero and below a billion, with at most 9 decimals, as a number or as text'
const expiryText = 'a time in the future, such as 2030-01-31T12:00:00Z'
/**
 * Limits the total length of the model ids of one key: a list returns up to a thousand keys, and ten thousand
 * keys are cached in memory.
 */
const MODEL_CHARACTERS_MAX = 8_192
const modelsText = `null, or an array of 1 to 256 model ids with at most ${MODEL_CHARACTERS_MAX} characters in total`
const modelText = 'a model id without control characters or text direction marks'
const autoText = 'the id of a model, not `auto`: every key may use `auto`, which then chooses among the listed models'

/** The body of `POST /v1/keys`. */
export const keyRequest = z
  .strictObject(
    {
      name: z
        .string({ error: nameText })
        .trim()
        .regex(PLAIN_TEXT, { error: nameText })
        .describe('What the key is for. 1 to 200 characters.'),
      spend_limit_usd: z
        .union([z.number(), z.string()], { error: limitText })
        .nullish()
        .describe(
          'Maximum the key may spend in each window of `limit_reset`, in USD with at most 9 decimals. Default: no limit of its own.',
        ),
      limit_reset: z
        .enum(limitResets, { error: `one of ${limitResets.join(', ')}` })
        .nullish()
        .describe(
          'When the spent amount returns to zero, at 00:00 UTC: `daily`, `weekly` (on Monday), `monthly` (on the first), or `none`. Needs `spend_limit_usd`. Default `none`.',
        ),
      allowed_models: z
        .array(
          modelId.refine(isPlain, { error: modelText }).refine(id => id !== AUTO_MODEL, { error: autoText }),
          { error: modelsText },
        )
        .min(1, { error: modelsText })
        .max(256, { error: modelsText })
        .refine(ids => ids.join('').length <= MODEL_CHARACTERS_MAX, { error: modelsText })
        .nullish()
        .describe(
          `Ids of the models that the key may use: 1 to 256 ids, ${MODEL_CHARACTERS_MAX} characters in total. Default: all models.`,
        ),
      expires_at: z.iso
        .datetime({ offset: true, error: expiryText })
        .nullish()
        .describe('When the key stops working: an ISO 8601 time in the future. Default: never.'),
      scopes: z
        .array(z.enum(keyScopes, { error: `one of ${keyScopes.join(', ')}` }), { error: 'an array of scopes' })
        .max(keyScopes.length, { error: 'an array of scopes, each once' })
        .nullish()
        .describe(
          'With `manage`, the key can create, list and delete the keys of its customer and change its alerts. Default: none.',
        ),
    },
    { error: 'a JSON object' },
  )
  .meta({
    id: 'KeyRequest',
    examples: [{ name: 'bot', spend_limit_usd: 5, limit_reset: 'monthly', allowed_models: ['llama-3.3-70b'] }],
  })

export interface RequestedKey {
  readonly name: string
  readonly limit: KeyLimit | null
  readonly allowedModels: readonly string[] | null
  readonly scopes: readonly KeyScope[]
  readonly expiresAt: Date | null
}

/**
 * Parses the body of `POST /v1/keys`. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`,
 * with the `param` at fault.
 */
export function parseKeyRequest(body: Buffer, nowEpochMs: number): RequestedKey {
  const input = parseJsonObject(body)
  const result = keyRequest.safeParse(input)
  if (!result.success) throw bodyRefusal(result.error, input, { what: 'a key', schema: keyRequest })
  const { name, spend_limit_usd, limit_reset, allowed_models, expires_at, scopes } = result.data
  const reset = limit_reset ?? 'none'
  if (reset !== 'none' && spend_limit_usd == null) {
    throw new ApiError('invalid_value', {
      param: 'limit_reset',
      message: '"limit_reset" needs a limit to reset. Send "spend_limit_usd" too.',
    })
  }
  const expiresAtMs = expires_at == null ? null : (readInstant(expires_at) ?? Number.NaN)
  if (expiresAtMs !== null && !(expiresAtMs > nowEpochMs)) throw invalidField('expires_at', expiryText, expires_at)
  return {
    name,
    limit: spend_limit_usd == null ? null : { limitNanos: parseLimit(spend_limit_usd), reset },
    allowedModels: allowed_models == null ? null : [...new Set(allowed_models)],
    scopes: scopes ?? [],
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
  }
}

function parseLimit(amount: number | string): Nanos {
  const nanos = readUsdAmount(amount)
  if (nanos === undefined) throw invalidField('spend_limit_usd', limitText, amount)
  return nanos
}
