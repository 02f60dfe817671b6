import { z } from 'zod'
import { chatFieldsSchema } from '../chat/chat-request-schema.ts'
import { routingSchemas } from '../routing-schemas.ts'

// Each `error` text completes the sentence "`param` must be ...".

const number = z.number({ error: 'a number' })
const jsonObject = z.looseObject({}, { error: 'an object' })

/** The settings of a request, after their names were changed to camel case. */
export const generationConfigSchema = z.looseObject(
  {
    maxOutputTokens: chatFieldsSchema.shape.max_tokens,
    temperature: chatFieldsSchema.shape.temperature,
    topP: z.number({ error: 'a number from 0 to 1' }).min(0).max(1).nullish(),
    topK: number.nullish(),
    presencePenalty: number.nullish(),
    frequencyPenalty: number.nullish(),
    seed: z.int({ error: 'an integer' }).nullish(),
    stopSequences: z.array(z.string({ error: 'a string' }), { error: 'an array of strings' }).nullish(),
    candidateCount: z.literal(1, { error: '1: other endpoints than chat generate one answer' }).nullish(),
    responseMimeType: z
      .enum(['text/plain', 'application/json', 'text/x.enum'], { error: 'text/plain, application/json or text/x.enum' })
      .nullish(),
    responseSchema: jsonObject.nullish(),
    responseJsonSchema: jsonObject.nullish(),
    responseModalities: z
      .array(z.literal('TEXT', { error: 'TEXT: only text is generated here' }), { error: 'an array' })
      .nullish(),
    thinkingConfig: jsonObject.nullish(),
  },
  { error: 'an object' },
)

/** The fields of a body that a schema checks. */
export const geminiFieldsSchema = z.looseObject({
  cachedContent: z
    .null({ error: 'left out: nothing is stored here; send the whole conversation in "contents"' })
    .optional(),
  ...routingSchemas,
})

export type GenerationConfig = z.infer<typeof generationConfigSchema>
export type GeminiFields = z.infer<typeof geminiFieldsSchema>
