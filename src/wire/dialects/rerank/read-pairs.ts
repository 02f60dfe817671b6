import { ApiError } from '../../../base/domain/errors.ts'
import { fewestTokens } from '../../../base/domain/output-cap.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { rerankBounds as bounds } from './rerank-request-schema.ts'

/** The query and the documents of a rerank request. A model reads each document together with the query. */
export interface Pairs {
  readonly query: string
  readonly documents: readonly string[]
  /** UTF-8 bytes of all pairs, with a line feed after each text but the last. */
  readonly textBytes: number
  /** The tokens that the longest pair has at least. */
  readonly longestTokensMin: number
}

const ALLOWED = `an array of 1 to ${bounds.documents} texts, or objects with "text"`

/** Checks both fields. Throws ApiError `missing_parameter` or `invalid_value`. */
export function readPairs(query: unknown, documents: unknown): Pairs {
  if (query === undefined) throw missingField('query', 'a text')
  if (typeof query !== 'string' || query === '') throw invalidField('query', 'a text that is not empty', query)
  if (documents === undefined) throw missingField('documents', ALLOWED)
  if (!Array.isArray(documents) || documents.length === 0) throw invalidField('documents', ALLOWED, documents)
  if (documents.length > bounds.documents) {
    throw new ApiError('invalid_value', {
      param: 'documents',
      message: `"documents" must have at most ${bounds.documents} items; it has ${documents.length}. Send them in several requests.`,
    })
  }
  const texts = documents.map(readDocument)
  const queryBytes = Buffer.byteLength(query)
  let textBytes = (queryBytes + 2) * texts.length - 1
  let longestBytes = 0
  for (const text of texts) {
    const bytes = Buffer.byteLength(text)
    textBytes += bytes
    longestBytes = Math.max(longestBytes, bytes)
  }
  if (textBytes > bounds.pairBytes) {
    throw new ApiError('invalid_value', {
      param: 'documents',
      message: `The documents, each with the query, have ${textBytes} bytes; the limit is ${bounds.pairBytes}. Send fewer documents at a time.`,
    })
  }
  return { query, documents: texts, textBytes, longestTokensMin: fewestTokens(queryBytes + longestBytes) }
}

function readDocument(document: unknown, index: number): string {
  const isObject = isJsonObject(document)
  const text = isObject ? document.text : document
  if (typeof text === 'string' && text !== '') return text
  throw invalidField(`documents[${index}]${isObject ? '.text' : ''}`, 'a text that is not empty', text)
}
