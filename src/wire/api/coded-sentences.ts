import { z } from 'zod'

/** The sentences of a text, for pages that show them in another language. */
export const codedSentences = z
  .array(z.object({ code: z.string(), values: z.record(z.string(), z.union([z.string(), z.number()])) }))
  .readonly()
  .describe('The sentences of the text by codes, with their values, for pages that show them in other languages.')
