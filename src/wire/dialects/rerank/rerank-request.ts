import { type ChatJob, type Feature, type RerankRequest, routingOf } from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { fewestTokens } from '../../../base/domain/request-bounds.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { type ExtraFieldRules, extraFieldRules, forwardedFields } from '../chat/upstream-request.ts'
import { checkFields } from '../check-fields.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { mayHaveLoneSurrogates, parseJsonObject, replaceLoneSurrogates } from '../json/parse-json.ts'
import { rerankBounds as bounds, rerankFieldsSchema } from './rerank-request-schema.ts'

/** The fields that every server gets. */
const standardFields: ReadonlySet<string> = new Set(['query', 'documents', 'top_n'])

/** Settings of vLLM, SGLang and Infinity. They change neither the model nor what it costs. */
export const rerankExtraFields = ['truncate_prompt_tokens', 'truncate', 'max_tokens_per_doc'] as const

const usualRules = extraFieldRules({}, rerankExtraFields)

/** What a server may add to a pair: tokens that begin, separate and end it, and an instruction of the model. */
const TOKENS_PER_PAIR = 64

/**
 * Parses the body of `POST /v1/rerank`. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with
 * the `param` at fault where there is one.
 */
export function parseRerankRequest(body: Buffer, rules: ExtraFieldRules = usualRules): ChatJob {
  const input = parseJsonObject(body)
  const fields = checkFields(rerankFieldsSchema, input)
  const { forward, extraFields, droppedFields } = forwardedFields(input, rules, standardFields)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  const { query, documents, textBytes, longestTokensMin } = readPairs(forward.query, forward.documents)
  const data: RerankRequest = {
    task: 'rerank',
    documents,
    topN: Math.min(fields.top_n ?? documents.length, documents.length),
    returnDocuments: fields.return_documents ?? false,
  }
  return {
    task: 'rerank',
    data,
    model: fields.model,
    ...routingOf(fields),
    stream: false,
    includeUsage: false,
    maxTokens: 1,
    choices: 0,
    hasStop: false,
    features: noFeatures,
    inputTokensBound: textBytes + documents.length * TOKENS_PER_PAIR,
    longestInputTokensMin: longestTokensMin,
    promptText: () => documents.map(document => `${query}\n${document}`).join('\n'),
    promptTextBytes: textBytes,
    promptLength: undefined,
    mediaTokensBound: 0,
    // The query and the document of each pair.
    messageCount: documents.length * 2,
    sessionKey: null,
    // Some servers accept only strings as documents.
    forward: { ...forward, documents },
    extraFields,
    droppedFields: droppedFields.filter(name => name !== 'return_documents'),
  }
}

const noFeatures: ReadonlySet<Feature> = new Set()

/** The query and the documents of a rerank request. A model reads each document together with the query. */
interface Pairs {
  readonly query: string
  readonly documents: readonly string[]
  /** UTF-8 bytes of all pairs, with a line feed after each text but the last. */
  readonly textBytes: number
  /** The tokens that the longest pair has at least. */
  readonly longestTokensMin: number
}

const ALLOWED = `an array of 1 to ${bounds.documents} texts, or objects with "text"`

/** Checks both fields. Throws ApiError `missing_parameter` or `invalid_value`. */
function readPairs(query: unknown, documents: unknown): Pairs {
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
