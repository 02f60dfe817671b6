import { setImmediate } from 'node:timers/promises'
import { DEMO_MODEL } from '../../base/domain/offer.ts'
import { DemoError, tokensOf } from './demo-request.ts'

type Input = string | readonly number[]

/** Returns the inputs of a field with a text, texts, the token ids of a text, or lists of token ids. */
export function listInputs(field: Input | readonly Input[]): readonly Input[] {
  return typeof field === 'string' || typeof field[0] === 'number' ? [field as Input] : (field as Input[])
}

/** Counts the tokens of inputs. */
export function tokensOfInputs(inputs: readonly Input[]): number {
  const ids = inputs.reduce((total, each) => total + (typeof each === 'string' ? 0 : each.length), 0)
  return ids + tokensOf(inputs.filter(each => typeof each === 'string'))
}

/** The length of the demo's vectors. */
const VECTOR_LENGTH = 256

/** The demo shares the event loop of the gateway: it reads only the beginning of a text, and one text in each turn. */
const UNITS_READ = 8_192

/** Answers POST /v1/embeddings with lists of numbers, which the gateway encodes. Rejects with DemoError. */
export async function answerEmbeddings(body: {
  input: Input | readonly Input[]
  dimensions?: number | null
}): Promise<string> {
  const length = body.dimensions ?? VECTOR_LENGTH
  if (length > VECTOR_LENGTH) {
    throw new DemoError(400, `dimensions: must be an integer from 1 to ${VECTOR_LENGTH}`, 'dimensions')
  }
  const inputs = listInputs(body.input)
  const data: string[] = []
  for (const [index, input] of inputs.entries()) {
    data.push(JSON.stringify({ object: 'embedding', index, embedding: vectorOf(input, length) }))
    await setImmediate()
  }
  const tokens = tokensOfInputs(inputs)
  const rest = JSON.stringify({ model: DEMO_MODEL, usage: { prompt_tokens: tokens, total_tokens: tokens } }).slice(1)
  return `{"object":"list","data":[${data.join(',')}],${rest}`
}

/** Answers POST /v1/rerank: documents that share words with the query come first. */
export async function answerRerank(body: {
  query: string
  documents: readonly string[]
  top_n?: number | null
}): Promise<string> {
  const { query, documents, top_n } = body
  const wanted = vectorOf(query)
  const results: { index: number; relevance_score: number }[] = []
  for (const [index, document] of documents.entries()) {
    const product = vectorOf(document).reduce((total, value, at) => total + value * (wanted[at] ?? 0), 0)
    results.push({ index, relevance_score: Math.round(product * 1e6) / 1e6 })
    await setImmediate()
  }
  results.sort((a, b) => b.relevance_score - a.relevance_score)
  const tokens = tokensOf([query]) * documents.length + tokensOf(documents)
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  return JSON.stringify({ model: DEMO_MODEL, results: results.slice(0, top_n ?? results.length), usage })
}

/** Each part adds to so many numbers of the vector. */
const NUMBERS_PER_PART = 4

/**
 * Returns a vector of length 1 in which each word and each three letters in a row have fixed places. Texts that share
 * words get similar vectors; the demo knows no meaning. The same input always gives the same vector.
 */
function vectorOf(input: Input, dimensions = VECTOR_LENGTH): readonly number[] {
  const sums = new Array<number>(dimensions).fill(0)
  if (typeof input !== 'string') for (const id of input.slice(0, UNITS_READ)) addPart(sums, `#${id}`, 1)
  else {
    const text = input.slice(0, UNITS_READ)
    for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]) {
      addPart(sums, word, 2)
      for (let at = 0; at + 3 <= word.length; at++) addPart(sums, word.slice(at, at + 3), 1)
    }
  }
  const size = Math.hypot(...sums)
  // Parts may cancel each other out.
  return sums.map((value, at) => (size === 0 ? Number(at === 0) : Math.round((value / size) * 1e6) / 1e6))
}

function addPart(sums: number[], part: string, weight: number): void {
  // FNV-1a, 32 bits.
  let hash = 0x811c9dc5
  for (let at = 0; at < part.length; at++) hash = Math.imul(hash ^ part.charCodeAt(at), 0x01000193)
  for (let count = 0; count < NUMBERS_PER_PART; count++) {
    const place = (hash >>> 1) % sums.length
    sums[place] = (sums[place] ?? 0) + (hash & 1 ? weight : -weight)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    hash ^= hash >>> 12
  }
}
