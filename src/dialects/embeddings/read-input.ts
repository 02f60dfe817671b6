import { ApiError } from '../../domain/errors.ts'
import { fewestTokens } from '../../domain/output-cap.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { embeddingsBounds as bounds } from './embeddings-request-schema.ts'

/** The `input` of an embeddings request: texts, or token ids. */
export interface Input {
  /** Null if the input is token ids. */
  readonly texts: readonly string[] | null
  /** Texts or lists of token ids. */
  readonly inputs: number
  /** UTF-8 bytes of all texts, with a line feed between them. */
  readonly textBytes: number
  /** The number of token ids; 0 for texts. */
  readonly tokens: number
  /** The tokens that the longest of the inputs has at least. */
  readonly longestTokensMin: number
}

const ALLOWED =
  'a text, an array of texts, an array of token ids, or an array of such arrays, each not empty (at most 2,048 of them)'

/** Checks the input. Throws ApiError `missing_parameter` or `invalid_value`. */
export function readInput(input: unknown): Input {
  if (input === undefined) throw missingField('input', ALLOWED)
  if (typeof input === 'string') return readTexts([input], () => 'input')
  if (!Array.isArray(input) || input.length === 0) throw invalidField('input', ALLOWED, input)
  const list: readonly unknown[] = input
  if (typeof list[0] === 'number') return readTokens([list], () => 'input')
  if (list.length > bounds.inputs) {
    throw new ApiError('invalid_value', {
      param: 'input',
      message: `"input" must have at most ${bounds.inputs} texts; it has ${list.length}. Send them in several requests.`,
    })
  }
  const at = (index: number) => `input[${index}]`
  return typeof list[0] === 'string' ? readTexts(list, at) : readTokens(list, at)
}

function readTexts(texts: readonly unknown[], at: (index: number) => string): Input {
  let textBytes = texts.length - 1
  let longestBytes = 0
  for (const [index, text] of texts.entries()) {
    if (typeof text !== 'string' || text === '') throw invalidField(at(index), 'a text that is not empty', text)
    const bytes = Buffer.byteLength(text)
    textBytes += bytes
    longestBytes = Math.max(longestBytes, bytes)
  }
  refuseTooMany(fewestTokens(textBytes), 'at least ')
  const longestTokensMin = fewestTokens(longestBytes)
  return { texts: texts as readonly string[], inputs: texts.length, textBytes, tokens: 0, longestTokensMin }
}

function readTokens(lists: readonly unknown[], at: (index: number) => string): Input {
  let tokens = 0
  let longest = 0
  for (const [index, list] of lists.entries()) {
    if (!Array.isArray(list) || list.length === 0) throw invalidField(at(index), 'an array of token ids', list)
    tokens += list.length
    longest = Math.max(longest, list.length)
    const wrong = list.findIndex(id => !(Number.isInteger(id) && id >= 0 && id <= TOKEN_ID_MAX))
    if (wrong !== -1) throw invalidField(`${at(index)}[${wrong}]`, 'a token id', list[wrong])
  }
  refuseTooMany(tokens, '')
  return { texts: null, inputs: lists.length, textBytes: 0, tokens, longestTokensMin: longest }
}

const TOKEN_ID_MAX = 2 ** 31 - 1

function refuseTooMany(tokens: number, about: string): void {
  if (tokens <= bounds.tokens) return
  throw new ApiError('invalid_value', {
    param: 'input',
    message: `"input" must have at most ${bounds.tokens} tokens; it has ${about}${tokens}. Send it in several requests.`,
  })
}
