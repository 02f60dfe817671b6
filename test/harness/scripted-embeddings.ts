import { type Behaviour, status } from './scripted-upstream.ts'

/** The scripted vector of the input with this index, with numbers that a float32 holds exactly. */
export function scriptedVector(index: number, length = 4): number[] {
  return Array.from({ length }, (_, place) => Math.fround((index + 1) / (place + 3)))
}

/** The numbers as base64 of little-endian float32. */
export function base64Of(numbers: readonly number[]): string {
  return Buffer.from(new Float32Array(numbers).buffer).toString('base64')
}

export interface EmbeddingsOptions {
  /** Default: what the request asks for. */
  readonly form?: 'float' | 'base64'
  /** null: no usage. Default: 3 tokens for each input. */
  readonly promptTokens?: number | null
  /** Changes the entries of the answer. */
  readonly change?: (data: Entry[]) => unknown[]
}

interface Entry {
  object: 'embedding'
  index: number
  embedding: unknown
}

/** A correct answer to an embeddings request. */
export function embeddings({ form, promptTokens, change = data => data }: EmbeddingsOptions = {}): Behaviour {
  return (request, response) => {
    const { input, encoding_format, dimensions, model } = request.body
    const count = Array.isArray(input) && typeof input[0] !== 'number' ? input.length : 1
    const isBase64 = (form ?? encoding_format) === 'base64'
    const data = Array.from({ length: count }, (_, index): Entry => {
      const vector = scriptedVector(index, typeof dimensions === 'number' ? dimensions : 4)
      return { object: 'embedding', index, embedding: isBase64 ? base64Of(vector) : vector }
    })
    const tokens = promptTokens === undefined ? 3 * count : promptTokens
    const usage = tokens === null ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }
    return status(200, { object: 'list', data: change(data), model, ...usage })(request, response)
  }
}
