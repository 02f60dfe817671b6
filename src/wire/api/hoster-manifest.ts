import { z } from 'zod'
import { type Feature, features } from '../../base/domain/chat-job.ts'
import { MODEL_ID, modelIdText, UPSTREAM_MODEL_ID, upstreamModelIdText } from '../../base/domain/model-id.ts'
import { parseUsdPerToken } from '../../base/domain/money.ts'
import { PLAIN_TEXT } from '../../base/runtime/plain-text.ts'
import { refusedField } from '../dialects/json/body-refusal.ts'
import { parseStrictBody } from './strict-body.ts'

// The manifest of a hoster: its models and prices, in the form of OpenRouter's document for providers. Each `error`
// text completes the sentence "`param` must be ...".

export const quantizations = ['int4', 'int8', 'fp4', 'fp6', 'fp8', 'fp16', 'bf16', 'fp32', 'unknown'] as const

const MODELS_MAX = 200
const object = { error: 'a JSON object' }
const modelId = z.string({ error: modelIdText }).regex(MODEL_ID, { error: modelIdText })
const upstreamModelId = z
  .string({ error: upstreamModelIdText })
  .regex(UPSTREAM_MODEL_ID, { error: upstreamModelIdText })
const nameText = 'a text of 1 to 200 characters without control characters'
const tokensText = 'a whole number of tokens above zero'
const tokens = z.int({ error: tokensText }).min(1, { error: tokensText }).max(100_000_000, { error: tokensText })
const concurrentText = 'a whole number from 1 to 100000, or null'
const priceText = 'USD per token as decimal text with at most 12 decimals, such as "0.0000002"'
const price = z.string({ error: priceText }).max(40, { error: priceText })
const featuresText = `a list of ${features.join(', ')}`
const quantizationText = `one of ${quantizations.join(', ')}`
const daysText = 'a whole number of days from 0 to 36500, or null for without limit'
const countryText = 'the two capital letters of a country (ISO 3166), such as DE'

const pricing = z.strictObject(
  {
    prompt: price.describe('USD per input token, as decimal text. Above zero.'),
    completion: price.describe('USD per output token. Above zero, except for models that only embed or rerank.'),
    input_cache_read: price
      .nullish()
      .describe(
        'USD per input token that the hoster read from a cache. At most `prompt`. Null: the price of `prompt`.',
      ),
    input_cache_write: price.nullish().describe('USD per input token written to a cache. At most `prompt`.'),
  },
  object,
)

const manifestModel = z.strictObject(
  {
    id: modelId.describe('The id that customers request.'),
    name: z
      .string({ error: nameText })
      .min(1, { error: nameText })
      .max(200, { error: nameText })
      .regex(PLAIN_TEXT, { error: nameText })
      .nullish()
      .describe('For people.'),
    upstream_model: upstreamModelId.nullish().describe("The id of the model at the hoster's server. Null: the same."),
    context_length: tokens.describe('Input and output together, in tokens.'),
    max_output_length: tokens.describe('The longest output, in tokens.'),
    max_concurrent: z
      .int({ error: concurrentText })
      .min(1, { error: concurrentText })
      .max(100_000, { error: concurrentText })
      .nullish()
      .describe(
        'How many requests at once the server takes for this model, from all nodes of the gateway. Null: the gateway finds a limit.',
      ),
    quantization: z.enum(quantizations, { error: quantizationText }).nullish().describe('How the weights are stored.'),
    supported_features: z
      .array(z.enum(features, { error: featuresText }), { error: featuresText })
      .max(features.length, { error: featuresText })
      .nullish()
      .describe('What the model supports besides text. The tasks: `chat` unless another one is named.'),
    pricing,
  },
  object,
)

const dataPolicy = z.strictObject(
  {
    trains_on_data: z.boolean({ error: 'true or false' }).describe('Whether prompts or answers train models.'),
    retention_days: z
      .int({ error: daysText })
      .min(0, { error: daysText })
      .max(36_500, { error: daysText })
      .nullable()
      .describe('How long prompts and answers are kept. 0: not at all. Null: without limit.'),
  },
  object,
)

/** The body of `PUT /v1/hoster/manifest`. */
export const manifest = z
  .strictObject(
    {
      region: z
        .string({ error: countryText })
        .regex(/^[A-Z]{2}$/, { error: countryText })
        .nullish()
        .describe('The country of the servers.'),
      data_policy: dataPolicy
        .nullish()
        .describe(
          'What happens to prompts and answers. Null: unknown, which customers must read as trained on and kept.',
        ),
      models: z
        .array(manifestModel, { error: `a list of 1 to ${MODELS_MAX} models` })
        .min(1, { error: `a list of 1 to ${MODELS_MAX} models` })
        .max(MODELS_MAX, { error: `a list of 1 to ${MODELS_MAX} models` })
        .describe('All models on offer. A model that is left out is no longer offered.'),
    },
    object,
  )
  .meta({
    id: 'HosterManifest',
    example: {
      region: 'DE',
      data_policy: { trains_on_data: false, retention_days: 0 },
      models: [
        {
          id: 'qwen3-8b',
          name: 'Qwen3 8B',
          upstream_model: 'qwen3:8b',
          context_length: 32_768,
          max_output_length: 8_192,
          max_concurrent: 8,
          quantization: 'int4',
          supported_features: ['tools', 'json_schema'],
          pricing: { prompt: '0.00000005', completion: '0.0000002', input_cache_read: '0.00000001' },
        },
      ],
    },
  })
export type Manifest = z.infer<typeof manifest>

/** What `PUT /v1/hoster/manifest` takes in its address. */
export const manifestQuery = z.object({
  version: z.coerce
    .number({ error: 'the number of a version' })
    .int({ error: 'the number of a version' })
    .min(0)
    .optional()
    .describe(
      'The version that you changed, 0 for none. If there is a later one, nothing is changed: 409 `changed_meanwhile`.',
    ),
})
export type ManifestModel = Manifest['models'][number]

/** The answer of `PUT` and `GET /v1/hoster/manifest`. */
export const storedManifest = z
  .object({
    object: z.literal('hoster.manifest'),
    version: z.int(),
    source: z.enum(['sent', 'read']).describe('`read`: from the model list of the server.'),
    created_at: z.string(),
    manifest,
    scheduled: z
      .array(
        z.object({
          model: z.string(),
          applies_at: z.string(),
          prompt: z.string().describe('USD per token.'),
          completion: z.string(),
        }),
      )
      .describe('Prices that rise so much that they wait for their notice.'),
    probing: z
      .array(z.string())
      .describe(
        'Models that are new or do something else and wait for their probes. `GET /v1/hoster/verification` has the results.',
      ),
  })
  .meta({ id: 'StoredHosterManifest' })
export type StoredManifest = z.infer<typeof storedManifest>

/** The prices of a model, in picodollars per token. Undefined: the input price. */
export interface ManifestPrice {
  readonly inputPicoPerToken: bigint
  readonly outputPicoPerToken: bigint
  readonly cacheReadPicoPerToken?: bigint | undefined
  readonly cacheWritePicoPerToken?: bigint | undefined
}

/** Parses a manifest. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export function parseManifest(body: Buffer): Manifest {
  const parsed = parseStrictBody(body, manifest, 'a manifest')
  requireGoodPrices(parsed)
  return parsed
}

/** Returns the prices of a model. Throws `invalid_value` for prices that are no decimal text, or zero. */
export function manifestPrice({ pricing, ...model }: ManifestModel, param: string): ManifestPrice {
  const picoOf = (field: keyof typeof pricing, text: string) => {
    const found = parseUsdPerToken(text)
    if (found === undefined) throw refusedField(`${param}.pricing.${field}`, priceText, text)
    return found
  }
  const pico = (field: keyof typeof pricing) => {
    const text = pricing[field]
    return text === undefined || text === null ? undefined : picoOf(field, text)
  }
  const input = picoOf('prompt', pricing.prompt)
  const output = picoOf('completion', pricing.completion)
  // A price of zero is a mistake, or buys traffic.
  if (input === 0n) throw refusedField(`${param}.pricing.prompt`, 'above zero', pricing.prompt)
  if (output === 0n && taskFeaturesOf(model).some(task => task === 'chat' || task === 'completions'))
    throw refusedField(`${param}.pricing.completion`, 'above zero', pricing.completion)
  return {
    inputPicoPerToken: input,
    outputPicoPerToken: output,
    cacheReadPicoPerToken: pico('input_cache_read'),
    cacheWritePicoPerToken: pico('input_cache_write'),
  }
}

/** Returns the tasks of a model: chat, unless its features name others. */
export function taskFeaturesOf({ supported_features: named }: Pick<ManifestModel, 'supported_features'>): Feature[] {
  const tasks = (named ?? []).filter(feature => taskNames.has(feature))
  return tasks.length > 0 ? tasks : ['chat']
}

const taskNames: ReadonlySet<Feature> = new Set(['chat', 'completions', 'embeddings', 'rerank'])

function requireGoodPrices({ models }: Manifest): void {
  const seen = new Set<string>()
  models.forEach((model, index) => {
    manifestPrice(model, `models[${index}]`)
    if (seen.has(model.id)) throw refusedField(`models[${index}].id`, 'named once in the manifest', model.id)
    seen.add(model.id)
  })
}
