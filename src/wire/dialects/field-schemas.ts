import { z } from 'zod'

// Schemas that the request bodies of several dialects share. Each `error` text completes the sentence
// "`param` must be ...".

export const boolean = z.boolean({ error: 'true or false' })

const MODEL_CHARACTERS_MAX = 256
// biome-ignore lint/suspicious/noControlCharactersInRegex: a model id must not contain them
const noControlCharacters = /^[^\u0000-\u001f\u007f-\u009f]*$/

/**
 * A model id is stored in the routing note of the usage row. PostgreSQL rejects NUL and lone surrogates, and
 * the charge would be lost with the row.
 */
export const modelId = (() => {
  const error = `a model id (1 to ${MODEL_CHARACTERS_MAX} characters, no control characters)`
  return z
    .string({ error })
    .min(1, { error })
    .max(MODEL_CHARACTERS_MAX, { error })
    .regex(noControlCharacters, { error })
    .refine(text => text.isWellFormed(), { error })
})()

export function between(min: number, max: number, type: typeof z.int | typeof z.number) {
  const error = `${type === z.int ? 'an integer' : 'a number'} from ${min} to ${max}`
  return type({ error }).min(min, { error }).max(max, { error })
}

export function list<Item extends z.ZodType>(item: Item, max: number, itemsText: string) {
  const error = `an array of at most ${max} ${itemsText}`
  return z.array(item, { error }).max(max, { error })
}
