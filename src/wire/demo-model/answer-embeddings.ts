import { z } from 'zod'
import { tokensOf } from './count-prompt.ts'
import { demoModel, requireDemoModel } from './demo-model.ts'
import { mapInTurns } from './map-in-turns.ts'
import { parseBody } from './parse-body.ts'
import { listInputs, textInputs } from './text-inputs.ts'
import { textVector, tokensVector, VECTOR_LENGTH } from './text-vector.ts'

const dimensionsError = `must be an integer from 1 to ${VECTOR_LENGTH}`
const embeddingsBody = z.looseObject({
  model: z.string(),
  input: textInputs,
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z
    .int({ error: dimensionsError })
    .min(1, { error: dimensionsError })
    .max(VECTOR_LENGTH, { error: dimensionsError })
    .nullish(),
})

/** Returns the JSON of the answer to POST /v1/embeddings. Rejects with DemoError. */
export async function answerEmbeddings(body: unknown): Promise<string> {
  const { model, input, encoding_format, dimensions } = parseBody(embeddingsBody, body)
  requireDemoModel(model)
  const inputs = listInputs(input)
  const texts = inputs.filter(each => typeof each === 'string')
  const ids = inputs.reduce((sum, each) => sum + (typeof each === 'string' ? 0 : each.length), 0)
  const tokens = tokensOf(texts) + ids
  const length = dimensions ?? VECTOR_LENGTH
  const data = await mapInTurns(
    inputs,
    each => UNITS_PER_VECTOR + each.length * (typeof each === 'string' ? 1 : UNITS_PER_ID),
    (each, index) => {
      const vector = typeof each === 'string' ? textVector(each, length) : tokensVector(each, length)
      const embedding = encoding_format === 'base64' ? base64Of(vector) : vector
      return JSON.stringify({ object: 'embedding', index, embedding })
    },
  )
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  const rest = JSON.stringify({ model: demoModel.id, usage }).slice(1)
  return `{"object":"list","data":[${data.join(',')}],${rest}`
}

/** What a vector costs besides its text, and what a token id costs, as UTF-16 units of text. */
const UNITS_PER_VECTOR = 512
const UNITS_PER_ID = 2

function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4)
  return bytes.toString('base64')
}
