import type { ChatJob, Feature, RerankRequest } from '../../../base/domain/chat-job.ts'
import { routingOf } from '../../../base/domain/routing-fields.ts'
import { type ExtraFieldRules, extraFieldRules, forwardedFields } from '../chat/forwarded-fields.ts'
import { checkFields } from '../check-fields.ts'
import { mayHaveLoneSurrogates, replaceLoneSurrogates } from '../json/lone-surrogates.ts'
import { parseJsonObject } from '../json/parse-json.ts'
import { readPairs } from './read-pairs.ts'
import { rerankFieldsSchema } from './rerank-request-schema.ts'

/** The fields that every server gets. */
const standardFields: ReadonlySet<string> = new Set(['query', 'documents', 'top_n'])

/** Settings of vLLM, SGLang and Infinity. They change neither the model nor what it costs. */
export const rerankExtraFields = ['truncate_prompt_tokens', 'truncate', 'max_tokens_per_doc'] as const

const usualRules = extraFieldRules({}, [], rerankExtraFields)

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
