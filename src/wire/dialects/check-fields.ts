import type { z } from 'zod'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { checkValue, refuseLongList, refuseManyKeys } from './json/parse-json.ts'
import { routingBounds as bounds } from './routing-schemas.ts'

/**
 * The longest lists of the gateway's own fields. They are checked before their items: a million invalid items would
 * produce a million issues.
 */
const listBounds: ReadonlyArray<readonly [field: string, max: number]> = [
  ['fallback_models', bounds.fallbackModels],
  ['allow_hosters', bounds.hosters],
  ['deny_hosters', bounds.hosters],
]

/** Checks the fields of a body that `schema` names: `model`, then the others in the order they were sent. Throws ApiError. */
export function checkFields<Schema extends z.ZodObject>(schema: Schema, input: JsonObject): z.infer<Schema> {
  const shape = schema.shape as Record<string, z.ZodType>
  refuseManyKeys(input, '')
  for (const [field, max] of listBounds) refuseLongList(input[field], max, field)
  if (Object.hasOwn(shape, 'model')) checkValue(shape.model!, input.model, 'model')
  for (const field of Object.keys(input)) {
    if (field !== 'model' && Object.hasOwn(shape, field)) checkValue(shape[field]!, input[field], field)
  }
  return input as z.infer<Schema>
}
