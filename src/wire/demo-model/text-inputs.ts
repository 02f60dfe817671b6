import { z } from 'zod'

/**
 * A text, texts, token ids, or lists of them. A union of schemas would collect an error for each of 300,000 token ids
 * before it tries the next schema, which held the event loop of the gateway for 0.2 s.
 */
export const textInputs = z.custom<string | readonly string[] | readonly number[] | readonly (readonly number[])[]>(
  value => {
    if (typeof value === 'string') return true
    return Array.isArray(value) && (value.every(isText) || isTokenIds(value) || value.every(isTokenIds))
  },
  { error: 'must be a text, an array of texts, an array of token ids, or an array of such arrays' },
)

const isText = (value: unknown) => typeof value === 'string'
const isTokenIds = (value: unknown) =>
  Array.isArray(value) && value.length > 0 && value.every(id => Number.isSafeInteger(id))

/** Returns the inputs, each a text or a list of token ids. */
export function listInputs(inputs: z.infer<typeof textInputs>): readonly (string | readonly number[])[] {
  if (typeof inputs === 'string') return [inputs]
  return typeof inputs[0] === 'number' ? [inputs as number[]] : (inputs as string[] | number[][])
}
