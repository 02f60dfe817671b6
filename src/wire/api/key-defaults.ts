import { z } from 'zod'
import type { KeyDefaults } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { isPlain } from '../../base/runtime/plain-text.ts'
import { list, modelId } from '../dialects/field-schemas.ts'
import { routingBounds, routingSchemas } from '../dialects/routing-schemas.ts'

const { dry_run: _, ...schemas } = routingSchemas
const plainModelId = modelId.refine(isPlain, {
  error: 'a model id without control characters or text direction marks',
})
/** Terminals show the defaults of a key, so their texts must be plain. */
const requestShape = {
  ...schemas,
  fallback_models: list(plainModelId, routingBounds.fallbackModels, 'model ids')
    .nullish()
    .describe(schemas.fallback_models.description!),
}

export const keyDefaultNames = Object.keys(requestShape) as (keyof KeyDefaults)[]

/** The defaults in a request. A null field is not set, or removed. */
export const keyDefaultsRequest = z.strictObject(requestShape, {
  error: `an object with fields of ${keyDefaultNames.join(', ')}`,
})

/** The defaults in an answer: only the fields that are set. */
export const keyDefaults = z
  .object({
    tier: schemas.tier.unwrap().unwrap().optional(),
    privacy_mode: schemas.privacy_mode.unwrap().unwrap().optional(),
    trusted_only: schemas.trusted_only.unwrap().unwrap().optional(),
    max_latency_ms: schemas.max_latency_ms.unwrap().unwrap().optional(),
    fallback_models: z.array(z.string()).optional(),
    allow_hosters: z.array(z.string()).optional(),
    deny_hosters: z.array(z.string()).optional(),
    max_cost_usd: schemas.max_cost_usd.unwrap().unwrap().optional(),
    max_input_usd_per_million: schemas.max_input_usd_per_million.unwrap().unwrap().optional(),
    max_output_usd_per_million: schemas.max_output_usd_per_million.unwrap().unwrap().optional(),
    on_insufficient: schemas.on_insufficient.unwrap().unwrap().optional(),
  })
  .describe(
    'Routing fields that apply to every request with the key. Of a constraint, the strictest of body, header and key holds; a preference (`tier`, `fallback_models`, `on_insufficient`) of the key applies when neither body nor header sets it.',
  )

/** Limits the memory of ten thousand cached keys, and the answer of a list of a thousand. */
const CHARACTERS_MAX = 8_192

/**
 * Returns the defaults after a change: absent fields stay, null removes a field or, as the whole change, all of them.
 * Null when none is left. Throws ApiError `invalid_value` when they become too long.
 */
export function changedDefaults(current: KeyDefaults | null, change: KeyDefaults | null): KeyDefaults | null {
  const merged = change === null ? {} : { ...current, ...change }
  const set = Object.entries(merged).filter(([, value]) => value !== null && value !== undefined)
  if (set.length === 0) return null
  const defaults: KeyDefaults = Object.fromEntries(set)
  const characters = JSON.stringify(defaults).length
  if (characters <= CHARACTERS_MAX) return defaults
  throw new ApiError('invalid_value', {
    param: 'defaults',
    message: `The defaults of a key may have ${CHARACTERS_MAX} characters as JSON; these have ${characters}. Shorten the lists.`,
  })
}
