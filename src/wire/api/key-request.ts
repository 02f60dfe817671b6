import { z } from 'zod'
import { type KeyLimit, type KeyScope, keyScopes, type LimitReset, limitResets } from '../../base/domain/caller.ts'
import { AUTO_MODEL, type KeyDefaults } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { readInstant } from '../../base/runtime/instant.ts'
import { isPlain, PLAIN_TEXT } from '../../base/runtime/plain-text.ts'
import { modelId } from '../dialects/field-schemas.ts'
import { refusedField } from '../dialects/json/body-refusal.ts'
import { changedDefaults, keyDefaultsRequest } from './key-defaults.ts'
import type { ListedKey } from './keys.ts'
import { label as labelText } from './label.ts'
import { parseStrictBody } from './strict-body.ts'
import { readUsdAmount, usdAmount } from './usd-amount.ts'

// Each `error` text completes the sentence "`param` must be ...".

/** The longest time that the former key of a rotation works. */
export const GRACE_SECONDS_MAX = 30 * 86_400

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

const keyName = z
  .string({ error: nameText })
  .trim()
  .min(1, { error: nameText })
  .regex(PLAIN_TEXT, { error: nameText })
  .describe('What the key is for. 1 to 200 characters.')
export const spendLimit = usdAmount(limitText)
export const limitReset = z.enum(limitResets, { error: `one of ${limitResets.join(', ')}` })
const modelIds = z
  .array(
    modelId.refine(isPlain, { error: modelText }).refine(id => id !== AUTO_MODEL, { error: autoText }),
    { error: modelsText },
  )
  .min(1, { error: modelsText })
  .max(256, { error: modelsText })
  .refine(ids => ids.join('').length <= MODEL_CHARACTERS_MAX, { error: modelsText })
const expiry = z.iso.datetime({ offset: true, error: expiryText })
const scopeList = z
  .array(z.enum(keyScopes, { error: `one of ${keyScopes.join(', ')}` }), { error: 'an array of scopes' })
  .max(keyScopes.length, { error: 'an array of scopes, each once' })
const modelsMeaning = `Ids of the models that the key may use: 1 to 256 ids, ${MODEL_CHARACTERS_MAX} characters in total.`

const defaultsMeaning =
  'Routing fields that apply to every request with the key. Of a constraint, the strictest of body, header and key holds. A preference of the key (`tier`, `fallback_models`, `on_insufficient`) applies when neither body nor header sets it. At most 8,192 characters as JSON.'

const recordContent = z.boolean({ error: 'true or false' })
const recordMeaning =
  'Record prompts and answers of the key, without credentials and personal data that are found in them. Only where the operator allows it, and never for requests with `privacy_mode`.'

/** The body of `POST /v1/keys`. */
export const keyRequest = z
  .strictObject(
    {
      name: keyName,
      spend_limit_usd: spendLimit
        .nullish()
        .describe(
          'Maximum the key may spend in each window of `limit_reset`, in USD with at most 9 decimals. Default: no limit of its own.',
        ),
      limit_reset: limitReset
        .nullish()
        .describe(
          'When the spent amount returns to zero, at 00:00 UTC: `daily`, `weekly` (on Monday), `monthly` (on the first), or `none`. Needs `spend_limit_usd`. Default `none`.',
        ),
      allowed_models: modelIds.nullish().describe(`${modelsMeaning} Default: all models.`),
      expires_at: expiry
        .nullish()
        .describe('When the key stops working: an ISO 8601 time in the future. Default: never.'),
      scopes: scopeList
        .nullish()
        .describe(
          'With `manage`, the key can create, list, change and delete the keys of its customer and change its alerts. Default: none.',
        ),
      label: labelText
        .nullish()
        .describe(
          'Label of requests that name none in the header `x-switchyard-label`, for the spend by label. 1 to 64 letters, digits or `._:/@-`. Default: none.',
        ),
      defaults: keyDefaultsRequest.nullish().describe(`${defaultsMeaning} Default: none.`),
      record_content: recordContent.nullish().describe(`${recordMeaning} Default: false.`),
    },
    { error: 'a JSON object' },
  )
  .meta({
    id: 'KeyRequest',
    examples: [{ name: 'bot', spend_limit_usd: 5, limit_reset: 'monthly', allowed_models: ['llama-3.3-70b'] }],
  })

/** The body of `PATCH /v1/keys/{id}`. */
export const keyChangeRequest = z
  .strictObject(
    {
      name: keyName.optional(),
      spend_limit_usd: spendLimit
        .nullable()
        .optional()
        .describe(
          'Maximum the key may spend in each window of `limit_reset`, in USD with at most 9 decimals. null removes the limit.',
        ),
      limit_reset: limitReset
        .optional()
        .describe(
          'When the spent amount returns to zero: `none`, `daily`, `weekly` or `monthly`. The key must have a limit. With another value than before, what the key has spent in the new window counts, too.',
        ),
      allowed_models: modelIds.nullable().optional().describe(`${modelsMeaning} null allows all models.`),
      expires_at: expiry
        .nullable()
        .optional()
        .describe('When the key stops working: an ISO 8601 time in the future. null: never.'),
      paused: z
        .boolean({ error: 'true or false' })
        .optional()
        .describe(
          'true: the key is refused with 403 `key_paused`, until it is changed to false, and its `former_key` ends for good. Only an operator can resume a key that an operator paused.',
        ),
      former_key: z
        .null({ error: 'null' })
        .optional()
        .describe('null ends the former key of a rotation for good, before its grace ends.'),
      scopes: scopeList.optional().describe('The scopes of the key: `["manage"]` or `[]`.'),
      label: labelText
        .nullable()
        .optional()
        .describe('Label of requests that name none in the header `x-switchyard-label`. null removes it.'),
      defaults: keyDefaultsRequest
        .nullable()
        .optional()
        .describe(`${defaultsMeaning} Fields that are left out stay; null removes a field, or all as the whole value.`),
      record_content: recordContent.optional().describe(recordMeaning),
    },
    { error: 'a JSON object' },
  )
  .meta({ id: 'KeyChangeRequest', minProperties: 1, examples: [{ spend_limit_usd: 10, allowed_models: null }] })

export interface RequestedKey {
  readonly name: string
  readonly limit: KeyLimit | null
  readonly allowedModels: readonly string[] | null
  readonly scopes: readonly KeyScope[]
  readonly label: string | null
  readonly defaults: KeyDefaults | null
  readonly recordsContent: boolean
  readonly expiresAt: Date | null
}

/**
 * Parses the body of `POST /v1/keys`. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`,
 * with the `param` at fault.
 */
export function parseKeyRequest(body: Buffer, nowEpochMs: number): RequestedKey {
  const { name, spend_limit_usd, limit_reset, allowed_models, expires_at, scopes, label, defaults, record_content } =
    parseStrictBody(body, keyRequest, 'a key')
  const reset = limit_reset ?? 'none'
  if (reset !== 'none' && spend_limit_usd == null) throw resetWithoutLimit()
  return {
    name,
    limit: spend_limit_usd == null ? null : { limitNanos: parseLimit(spend_limit_usd), reset },
    allowedModels: allowed_models == null ? null : [...new Set(allowed_models)],
    scopes: scopes ?? [],
    label: label ?? null,
    defaults: changedDefaults(null, defaults ?? null),
    recordsContent: record_content ?? false,
    expiresAt: expires_at == null ? null : parseExpiry(expires_at, nowEpochMs),
  }
}

/** What a body changes of a spend limit. The others are undefined. */
export interface RequestedLimit {
  /** Null removes the limit. */
  readonly limitNanos?: Nanos | null
  readonly limitReset?: LimitReset
}

/** The fields that a body changes. The others are undefined. `changedDefaults` applies `defaults`. */
export interface RequestedKeyChange extends Partial<Omit<RequestedKey, 'limit'>>, RequestedLimit {
  readonly isPaused?: boolean
  readonly formerKey?: null
}

/** Parses the body of `PATCH /v1/keys/{id}`. Throws like `parseKeyRequest`. */
export function parseKeyChange(body: Buffer, nowEpochMs: number): RequestedKeyChange {
  const change = parseStrictBody(body, keyChangeRequest, 'a change of a key')
  if (Object.keys(change).length === 0) {
    throw new ApiError('invalid_value', {
      message: `The body changes nothing. The fields are ${Object.keys(keyChangeRequest.shape).join(', ')}.`,
    })
  }
  const { name, spend_limit_usd: limit, limit_reset, allowed_models: models } = change
  const { expires_at: expiry, scopes, label, defaults, paused, former_key, record_content } = change
  return {
    ...(name !== undefined && { name }),
    ...(limit !== undefined && { limitNanos: limit === null ? null : parseLimit(limit) }),
    ...(limit_reset !== undefined && { limitReset: limit_reset }),
    ...(models !== undefined && { allowedModels: models === null ? null : [...new Set(models)] }),
    ...(expiry !== undefined && { expiresAt: expiry === null ? null : parseExpiry(expiry, nowEpochMs) }),
    ...(scopes !== undefined && { scopes }),
    ...(label !== undefined && { label }),
    ...(defaults !== undefined && { defaults }),
    ...(paused !== undefined && { isPaused: paused }),
    ...(former_key !== undefined && { formerKey: former_key }),
    ...(record_content !== undefined && { recordsContent: record_content }),
  }
}

const graceText = `a whole number of seconds from 0 to ${GRACE_SECONDS_MAX}`

/** The body of `POST /v1/keys/{id}/rotate`. */
export const keyRotationRequest = z
  .strictObject(
    {
      grace_seconds: z
        .int({ error: graceText })
        .min(0, { error: graceText })
        .max(GRACE_SECONDS_MAX, { error: graceText })
        .nullish()
        .describe(
          'How long the former key goes on working, in seconds: 0 to 2,592,000 (30 days). Default: 86,400, one day. A key that is paused ends for good: its default is 0, and other values get 400.',
        ),
    },
    { error: 'a JSON object' },
  )
  .meta({ id: 'KeyRotationRequest', examples: [{ grace_seconds: 86_400 }] })

/** Returns how long the former key works; null for the default. Throws like `parseKeyRequest`. */
export function parseKeyRotation(body: Buffer): { readonly graceSeconds: number | null } {
  return { graceSeconds: parseStrictBody(body, keyRotationRequest, 'a rotation of a key').grace_seconds ?? null }
}

/** The body of `POST /v1/keys/find`. */
export const keySearchRequest = z
  .strictObject(
    {
      key: z
        .string({ error: 'a key that begins with sk-sy-' })
        .describe(
          'The key itself, or a text with it, such as a line of a file; or its `hint`. A key is compared by its hash, and the text is neither stored nor logged.',
        ),
    },
    { error: 'a JSON object' },
  )
  .meta({ id: 'KeySearchRequest', examples: [{ key: 'sk-sy-...' }] })

/** Throws like `parseKeyRequest`; never with the key in its text. */
export function parseKeySearch(body: Buffer): { readonly key: string } {
  return parseStrictBody(body, keySearchRequest, 'a search for a key')
}

/**
 * Returns the limit of a key or a member after a change; undefined if it stays. Throws ApiError `invalid_value` for a
 * reset without a limit.
 */
export function changedLimit(
  key: Pick<ListedKey, 'limitNanos' | 'limitReset'>,
  { limitNanos, limitReset }: RequestedLimit,
): KeyLimit | null | undefined {
  if (limitNanos === undefined && limitReset === undefined) return undefined
  const nanos = limitNanos === undefined ? key.limitNanos : limitNanos
  if (nanos === null && limitReset !== undefined && limitReset !== 'none') throw resetWithoutLimit()
  return nanos === null ? null : { limitNanos: nanos, reset: limitReset ?? key.limitReset }
}

function resetWithoutLimit(): ApiError {
  return new ApiError('invalid_value', {
    param: 'limit_reset',
    message: '"limit_reset" needs a limit to reset. Send "spend_limit_usd" too.',
  })
}

function parseExpiry(text: string, nowEpochMs: number): Date {
  const epochMs = readInstant(text)
  if (epochMs === undefined || epochMs <= nowEpochMs) throw refusedField('expires_at', expiryText, text)
  return new Date(epochMs)
}

/** Throws ApiError `invalid_value`. */
export function parseLimit(amount: number | string): Nanos {
  const nanos = readUsdAmount(amount)
  if (nanos === undefined) throw refusedField('spend_limit_usd', limitText, amount)
  return nanos
}
