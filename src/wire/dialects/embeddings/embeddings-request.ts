import {
  AUTO_MODEL,
  type ChatJob,
  type EmbeddingsRequest,
  type Feature,
  type Preference,
  type RoutingFields,
  routingOf,
} from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import {
  type ExtraFieldRules,
  extraFieldRules,
  type ForwardedFields,
  forwardedFields,
} from '../chat/upstream-request.ts'
import { checkFields } from '../check-fields.ts'
import { mayHaveLoneSurrogates, parseJsonObject, replaceLoneSurrogates } from '../json/parse-json.ts'
import { readTextInput, type TextInputRules } from '../read-text-input.ts'
import { embeddingsBounds, embeddingsFieldsSchema } from './embeddings-request-schema.ts'

/** The fields of OpenAI's API that every server gets. */
const standardFields: ReadonlySet<string> = new Set(['input', 'encoding_format', 'dimensions', 'user'])

/** Settings of vLLM, SGLang, Infinity and Hugging Face's server. They change neither the model nor what it costs. */
export const embeddingsExtraFields = [
  ...['truncate_prompt_tokens', 'truncate', 'add_special_tokens', 'normalize', 'input_type'],
] as const

const usualRules = extraFieldRules({}, embeddingsExtraFields)

/** A list of 300,000 token ids has a comma for each. */
const DELIMITERS_MAX = embeddingsBounds.tokens + 65_536

const inputRules = {
  field: 'input',
  inputsMax: embeddingsBounds.inputs,
  tokensMax: embeddingsBounds.tokens,
  mayBeEmpty: false,
}

/** What a server may add to an input: tokens that begin and end it, and an instruction of the model. */
const TOKENS_PER_INPUT = 32

/**
 * Parses the body of `POST /v1/embeddings`. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`,
 * with the `param` at fault where there is one.
 */
export function parseEmbeddingsRequest(body: Buffer, rules: ExtraFieldRules = usualRules): ChatJob {
  const input = parseJsonObject(body, DELIMITERS_MAX)
  const fields = checkFields(embeddingsFieldsSchema, input)
  const forwarded = forwardedFields(input, rules, standardFields)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forwarded.forward)
  const { dimensions, encoding_format: encoding } = fields
  const data = { dimensions: dimensions ?? null, encoding: encoding ?? 'float', form: 'openai' } as const
  return embeddingsJob(fields, forwarded, data, inputRules)
}

/**
 * Returns the job of a request of any dialect. Throws ApiError for a request that lets another model answer, and for
 * wrong or too many inputs.
 *
 * @param fields checked
 * @param forwarded fields of OpenAI's API. `input` has what to embed, and is checked here
 */
export function embeddingsJob(
  fields: RoutingFields & { readonly model: string },
  { forward, extraFields, droppedFields }: ForwardedFields,
  wanted: Omit<EmbeddingsRequest, 'task' | 'inputs'>,
  rules: TextInputRules,
): ChatJob {
  refuseOtherModels(fields.model, fields.fallback_models)
  const { texts, inputs, textBytes, tokens, longestTokensMin } = readTextInput(forward.input, rules)
  const data: EmbeddingsRequest = { task: 'embeddings', inputs, ...wanted }
  return {
    task: 'embeddings',
    data,
    model: fields.model,
    ...routingOf(fields),
    // The fallback models of a header or a key do not apply.
    openPreferences: fields.tier ? noPreferences : onlyTier,
    stream: false,
    includeUsage: false,
    maxTokens: 1,
    choices: 0,
    hasStop: false,
    features: data.dimensions === null ? noFeatures : dimensionsFeature,
    // Token ids are counted exactly. A text has at most a token for each byte.
    inputTokensBound: texts === null ? tokens : textBytes + inputs * TOKENS_PER_INPUT,
    longestInputTokensMin: longestTokensMin,
    promptText: () => texts?.join('\n') ?? '',
    promptTextBytes: textBytes,
    promptLength: undefined,
    mediaTokensBound: tokens,
    messageCount: inputs,
    sessionKey: null,
    forward,
    extraFields,
    droppedFields,
  }
}

const onlyTier: ReadonlySet<Preference> = new Set(['tier'])
const noPreferences: ReadonlySet<Preference> = new Set()
const noFeatures: ReadonlySet<Feature> = new Set()
const dimensionsFeature: ReadonlySet<Feature> = new Set(['dimensions'])

function refuseOtherModels(model: string, fallbackModels: unknown): void {
  const why = 'vectors of different models cannot be compared'
  if (model === AUTO_MODEL) {
    throw new ApiError('invalid_value', {
      param: 'model',
      message: `"model" must name a model here, not auto: ${why}.`,
    })
  }
  if (fallbackModels === undefined || fallbackModels === null) return
  if (Array.isArray(fallbackModels) && fallbackModels.length === 0) return
  const message = `"fallback_models" must be left out here: ${why}. Other servers of the same model are tried.`
  throw new ApiError('invalid_value', { param: 'fallback_models', message })
}
