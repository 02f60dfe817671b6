import { ApiError } from '../../base/domain/errors.ts'
import { fewestTokens } from '../../base/domain/request-bounds.ts'
import { invalidField, missingField } from './json/body-refusal.ts'

/** A field with texts or token ids. */
export interface TextInput {
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

export interface TextInputRules {
  /** The name of the field. */
  readonly field: string
  readonly inputsMax: number
  /** In all inputs together. */
  readonly tokensMax: number
  readonly mayBeEmpty: boolean
}

const TOKEN_ID_MAX = 2 ** 31 - 1

/**
 * Reads a text, a list of texts, the token ids of one text, or a list of such lists. Throws ApiError
 * `missing_parameter` or `invalid_value`.
 */
export function readTextInput(input: unknown, rules: TextInputRules): TextInput {
  const { field, inputsMax } = rules
  const allowed = `a text, an array of texts, an array of token ids, or an array of such arrays (at most ${inputsMax})`
  if (input === undefined) throw missingField(field, allowed)
  if (typeof input === 'string') return readTexts([input], () => field, rules)
  if (!Array.isArray(input) || input.length === 0) throw invalidField(field, allowed, input)
  const list: readonly unknown[] = input
  if (typeof list[0] === 'number') return readTokens([list], () => field, rules)
  if (list.length > inputsMax) {
    throw new ApiError('invalid_value', {
      param: field,
      message: `"${field}" must have at most ${inputsMax} texts; it has ${list.length}. Send them in several requests.`,
    })
  }
  const at = (index: number) => `${field}[${index}]`
  return typeof list[0] === 'string' ? readTexts(list, at, rules) : readTokens(list, at, rules)
}

function readTexts(texts: readonly unknown[], at: (index: number) => string, rules: TextInputRules): TextInput {
  let textBytes = texts.length - 1
  let longestBytes = 0
  for (const [index, text] of texts.entries()) {
    if (typeof text !== 'string') throw invalidField(at(index), 'a text', text)
    if (text === '' && !rules.mayBeEmpty) throw invalidField(at(index), 'a text that is not empty', text)
    const bytes = Buffer.byteLength(text)
    textBytes += bytes
    longestBytes = Math.max(longestBytes, bytes)
  }
  refuseTooMany(fewestTokens(textBytes), 'at least ', rules)
  const longestTokensMin = fewestTokens(longestBytes)
  return { texts: texts as readonly string[], inputs: texts.length, textBytes, tokens: 0, longestTokensMin }
}

function readTokens(lists: readonly unknown[], at: (index: number) => string, rules: TextInputRules): TextInput {
  let tokens = 0
  let longest = 0
  for (const [index, list] of lists.entries()) {
    if (!Array.isArray(list) || list.length === 0) throw invalidField(at(index), 'an array of token ids', list)
    tokens += list.length
    longest = Math.max(longest, list.length)
    const wrong = list.findIndex(id => !(Number.isInteger(id) && id >= 0 && id <= TOKEN_ID_MAX))
    if (wrong !== -1) throw invalidField(`${at(index)}[${wrong}]`, 'a token id', list[wrong])
  }
  refuseTooMany(tokens, '', rules)
  return { texts: null, inputs: lists.length, textBytes: 0, tokens, longestTokensMin: longest }
}

function refuseTooMany(tokens: number, about: string, { field, tokensMax }: TextInputRules): void {
  if (tokens <= tokensMax) return
  throw new ApiError('invalid_value', {
    param: field,
    message: `"${field}" must have at most ${tokensMax} tokens; it has ${about}${tokens}. Send it in several requests.`,
  })
}
