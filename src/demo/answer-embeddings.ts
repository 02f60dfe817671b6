import { z } from 'zod'
import { tokensOf } from './count-prompt.ts'
import { demoModel, requireDemoModel } from './demo-model.ts'
import { parseBody } from './parse-body.ts'
import { textVector, tokensVector, VECTOR_LENGTH } from './text-vector.ts'

const tokens = z.array(z.int()).min(1)
const dimensionsError = `must be an integer from 1 to ${VECTOR_LENGTH}`
const embeddingsBody = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(z.string()), tokens, z.array(tokens)]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z
    .int({ error: dimensionsError })
    .min(1, { error: dimensionsError })
    .max(VECTOR_LENGTH, { error: dimensionsError })
    .nullish(),
})

/** Returns the body of the answer to POST /v1/embeddings. Throws DemoError. */
export function answerEmbeddings(body: unknown) {
  const { model, input, encoding_format, dimensions } = parseBody(embeddingsBody, body)
  requireDemoModel(model)
  const inputs = inputsOf(input)
  const texts = inputs.filter(each => typeof each === 'string')
  const ids = inputs.reduce((sum, each) => sum + (typeof each === 'string' ? 0 : each.length), 0)
  const promptTokens = tokensOf(texts) + ids
  return {
    object: 'list',
    data: inputs.map((each, index) => {
      const length = dimensions ?? VECTOR_LENGTH
      const vector = typeof each === 'string' ? textVector(each, length) : tokensVector(each, length)
      return { object: 'embedding', index, embedding: encoding_format === 'base64' ? base64Of(vector) : vector }
    }),
    model: demoModel.id,
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  }
}

function inputsOf(input: z.infer<typeof embeddingsBody>['input']): readonly (string | readonly number[])[] {
  if (typeof input === 'string') return [input]
  return typeof input[0] === 'number' ? [input as number[]] : (input as string[] | number[][])
}

function base64Of(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4)
  return bytes.toString('base64')
}
