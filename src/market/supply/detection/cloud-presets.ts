import type { Feature } from '../../../base/domain/chat-job.ts'
import type { CloudCredential } from '../../../base/domain/cloud-credential.ts'
import type { Dialect } from '../../../base/domain/conversation.ts'
import { standardQuirks } from '../../../base/domain/endpoint-defaults.ts'
import type { ModelQuirks, UpstreamQuirks } from '../../../base/domain/offer.ts'

/** A cloud that is offered when its key is in the environment. */
export interface CloudPreset {
  /** The endpoint id and what customers see as the owner of its models. */
  readonly name: string
  readonly keyVariable: string
  readonly baseUrl: string
  /** Authorises requests instead of the key. */
  readonly credential?: CloudCredential
  readonly dialect: UpstreamQuirks
  /** The dialects of its models, if not chat. */
  readonly speaks?: readonly Dialect[]
  readonly models: readonly CloudModel[]
}

/** USD per million tokens, as decimal text. */
export interface CloudPrices {
  readonly input: string
  readonly output: string
  /** Missing: as without a cache. */
  readonly cacheRead?: string
  /** Missing: the cloud charges nothing for writing to its cache. */
  readonly cacheWrite?: string
}

export interface CloudHours {
  /** 0 is Sunday. */
  readonly days: readonly number[]
  readonly fromMinute: number
  readonly untilMinute: number
}

export interface CloudModel {
  readonly modelId: string
  /** The id at the cloud, if it differs. */
  readonly upstreamModel?: string
  readonly prices: CloudPrices
  /** The prices of prompts above a length. */
  readonly longPrompts?: CloudPrices & { readonly aboveInputTokens: number }
  /** The prices at some times, in UTC. */
  readonly peaks?: readonly (CloudPrices & CloudHours)[]
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: readonly Feature[]
  readonly quirks?: ModelQuirks
  /** If it differs from that of the cloud. */
  readonly speaks?: readonly Dialect[]
}

/**
 * The date on which the prices below were collected, from the vendors' pages and from issues of models.dev, litellm,
 * genai-prices and llm-prices that quote them. Clouds change prices: check them before selling, and declare a model in
 * switchyard.yaml to set your own price.
 */
export const cloudPricesAsOf = '2026-11-23'

/**
 * Fields of answers that clients send back in later requests although only some servers accept them (LiteLLM
 * issue 30835 for Mistral, Kai issue 265 for Groq). `reasoning_details` comes from OpenRouter,
 * `extra_content` from Gemini.
 */
const echoedFields = [
  ...['refusal', 'annotations', 'reasoning', 'reasoning_content', 'reasoning_details', 'extra_content'],
  'tool_calls[].extra_content',
].map(field => `messages[].${field}`)

/** Settings that models reject which always reason. */
const samplingFields = ['temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'logprobs', 'top_logprobs']

/** Settings that clouds with open models accept. */
const samplerFields = ['top_k', 'min_p', 'repetition_penalty']

const weekdays = [1, 2, 3, 4, 5]
const deepSeekHours: readonly CloudHours[] = [
  { days: weekdays, fromMinute: 60, untilMinute: 240 },
  { days: weekdays, fromMinute: 360, untilMinute: 600 },
]

export const cloudPresets: readonly CloudPreset[] = [
  {
    name: 'openai',
    keyVariable: 'OPENAI_API_KEY',
    baseUrl: 'https://api.openai.com/v1',
    // The reasoning models refuse max_tokens; for the others it is deprecated.
    dialect: {
      ...standardQuirks,
      maxTokensField: 'max_completion_tokens',
      developerToSystem: false,
      toolCallIds: 'short',
    },
    models: [
      // Since GPT-5.6, writing to the prompt cache costs 1.25 times the input price, and any prompt from 1,024 tokens
      // may be written. Prompts above 272,000 tokens cost twice as much and their answers 1.5 times. The token count of
      // an image is not known, so images are not offered. GPT-6.1 has no tools on chat completions.
      {
        ...gpt(
          'gpt-6.1-sol',
          { input: '2', output: '10', cacheRead: '0.1', cacheWrite: '2.5' },
          { input: '4', output: '15', cacheRead: '0.2', cacheWrite: '5' },
          { dropFields: samplingFields, exclusiveReasoning: false },
        ),
        speaks: ['responses'],
      },
      gpt(
        'gpt-6-sol',
        { input: '2', output: '10', cacheRead: '0.2', cacheWrite: '2.5' },
        { input: '4', output: '15', cacheRead: '0.4', cacheWrite: '5' },
      ),
      gpt(
        'gpt-6-luna',
        { input: '0.1', output: '0.5', cacheRead: '0.01', cacheWrite: '0.125' },
        { input: '0.2', output: '0.75', cacheRead: '0.02', cacheWrite: '0.25' },
      ),
      // OpenAI calls this a promotion "at least through November 21, 2026"; before, it was 5 and 30.
      gpt(
        'gpt-5.6-sol',
        { input: '4', output: '20', cacheRead: '0.4', cacheWrite: '5' },
        { input: '8', output: '30', cacheRead: '0.8', cacheWrite: '10' },
      ),
      gpt(
        'gpt-5.6-terra',
        { input: '2', output: '12', cacheRead: '0.2', cacheWrite: '2.5' },
        { input: '4', output: '18', cacheRead: '0.4', cacheWrite: '5' },
      ),
      gpt(
        'gpt-5.6-luna',
        { input: '0.2', output: '1.2', cacheRead: '0.02', cacheWrite: '0.25' },
        { input: '0.4', output: '1.8', cacheRead: '0.04', cacheWrite: '0.5' },
      ),
      model('gpt-4.1', { input: '2', output: '8', cacheRead: '0.5' }, 1_047_576, 32_768, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('gpt-4.1-mini', { input: '0.4', output: '1.6', cacheRead: '0.1' }, 1_047_576, 32_768, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('gpt-4o', { input: '2.5', output: '10', cacheRead: '1.25' }, 128_000, 16_384, [
        'tools',
        'images',
        'json_schema',
      ]),
      // An image counts up to 48,000 tokens (dify issue 7707), but at most 2,048 would be charged: see
      // src/wire/dialects/chat/prompt-size.ts.
      model('gpt-4o-mini', { input: '0.15', output: '0.6', cacheRead: '0.075' }, 128_000, 16_384, [
        'tools',
        'json_schema',
      ]),
      embedder('text-embedding-3-small', '0.02', 8_192),
      embedder('text-embedding-3-large', '0.13', 8_192),
    ],
  },
  {
    name: 'anthropic',
    keyVariable: 'ANTHROPIC_API_KEY',
    baseUrl: 'https://api.anthropic.com/v1',
    dialect: { ...standardQuirks, forwardFields: ['thinking'], keyHeader: 'x-api-key' },
    speaks: ['messages'],
    models: [
      // The token count of an image is not known for the models from 5 on, so images are not offered.
      claude('claude-opus-5-5', claudePrices('4', '20', '0.2', '5')),
      claude('claude-sonnet-5-5', claudePrices('2', '10', '0.2', '2.5')),
      {
        ...claude('claude-haiku-5-5', claudePrices('0.1', '0.5', '0.01', '0.125')),
        longPrompts: { ...claudePrices('0.5', '2.5', '0.05', '0.625'), aboveInputTokens: 100_000 },
      },
      claude('claude-opus-5', claudePrices('5', '25', '0.5', '6.25')),
      claude('claude-sonnet-5', claudePrices('2', '10', '0.2', '2.5')),
      {
        ...model('claude-sonnet-4-6', { input: '3', output: '15' }, 1_000_000, 64_000, [
          'tools',
          'images',
          'json_schema',
        ]),
        prices: claudePrices('3', '15', '0.3', '3.75'),
      },
      {
        ...model('claude-haiku-4-5', { input: '1', output: '5' }, 200_000, 64_000, ['tools', 'images', 'json_schema']),
        prices: claudePrices('1', '5', '0.1', '1.25'),
        quirks: { dropFields: [], exclusiveReasoning: false, thinking: 'budget' },
      },
    ],
  },
  {
    name: 'gemini',
    keyVariable: 'GEMINI_API_KEY',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    dialect: { ...standardQuirks, hidesReasoning: true, keyHeader: 'x-goog-api-key' },
    speaks: ['gemini'],
    models: [
      // Prompts above 200,000 tokens cost twice as much and their answers 1.5 times.
      {
        ...model('gemini-3.1-pro-preview', { input: '2', output: '12', cacheRead: '0.2' }, 1_048_576, 65_536, [
          'tools',
          'images',
          'json_schema',
        ]),
        longPrompts: { input: '4', output: '18', cacheRead: '0.4', aboveInputTokens: 200_000 },
      },
      // The vendor charges half of this price until the end of 2026.
      model('gemini-3.7-flash', { input: '1.5', output: '7.5', cacheRead: '0.15' }, 1_048_576, 65_536, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('gemini-3.5-flash-lite', { input: '0.3', output: '2.5', cacheRead: '0.03' }, 1_048_576, 65_536, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('gemini-3.1-flash-lite', { input: '0.25', output: '1.5', cacheRead: '0.025' }, 1_048_576, 65_536, [
        'tools',
        'images',
        'json_schema',
      ]),
    ],
  },
  {
    name: 'mistral',
    keyVariable: 'MISTRAL_API_KEY',
    baseUrl: 'https://api.mistral.ai/v1',
    // Answers 422 extra_forbidden to unknown fields; reports usage in streams without stream_options.
    dialect: {
      ...standardQuirks,
      streamOptions: false,
      forwardFields: ['random_seed', 'safe_prompt', 'prompt_mode'],
      dropFields: [
        ...['user', 'logit_bias', 'logprobs', 'top_logprobs', 'store', 'metadata', 'verbosity'],
        ...['safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'reasoning_effort', 'seed'],
        ...echoedFields,
      ],
      toolCallIds: 'nine',
    },
    models: [
      model('mistral-medium-3-5', { input: '1.5', output: '7.5', cacheRead: '0.15' }, 262_144, 262_144, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('mistral-large-2512', { input: '0.5', output: '1.5', cacheRead: '0.05' }, 262_144, 262_144, [
        'tools',
        'images',
        'json_schema',
      ]),
      model('mistral-small-2603', { input: '0.15', output: '0.6', cacheRead: '0.015' }, 256_000, 256_000, [
        'tools',
        'images',
        'json_schema',
      ]),
    ],
  },
  {
    name: 'groq',
    keyVariable: 'GROQ_API_KEY',
    baseUrl: 'https://api.groq.com/openai/v1',
    // Groq documents that it answers 400 to the first four fields.
    dialect: {
      ...standardQuirks,
      forwardFields: ['reasoning_format', 'include_reasoning'],
      dropFields: ['logprobs', 'logit_bias', 'top_logprobs', 'messages[].name', ...echoedFields],
    },
    models: [
      model('openai/gpt-oss-120b', { input: '0.15', output: '0.6', cacheRead: '0.075' }, 131_072, 65_536, [
        'tools',
        'json_schema',
      ]),
      model('openai/gpt-oss-20b', { input: '0.075', output: '0.3', cacheRead: '0.0375' }, 131_072, 65_536, [
        'tools',
        'json_schema',
      ]),
    ],
  },
  {
    name: 'deepseek',
    keyVariable: 'DEEPSEEK_API_KEY',
    baseUrl: 'https://api.deepseek.com',
    dialect: { ...standardQuirks, forwardFields: ['thinking'] },
    models: [
      // Twice as expensive on weekdays from 01:00 to 04:00 and from 06:00 to 10:00 UTC.
      {
        ...model('deepseek-flash', { input: '0.15', output: '0.6' }, 1_000_000, 384_000, ['tools']),
        peaks: deepSeekHours.map(hours => ({ ...hours, input: '0.3', output: '1.2' })),
      },
      {
        ...model('deepseek-v4-pro', { input: '0.66', output: '1.98', cacheRead: '0.022' }, 1_000_000, 384_000, [
          'tools',
        ]),
        peaks: deepSeekHours.map(hours => ({ ...hours, input: '1.32', output: '3.96', cacheRead: '0.044' })),
      },
    ],
  },
  {
    name: 'together',
    keyVariable: 'TOGETHER_API_KEY',
    baseUrl: 'https://api.together.xyz/v1',
    dialect: { ...standardQuirks, forwardFields: samplerFields },
    models: [
      model('meta-llama/Llama-3.3-70B-Instruct-Turbo', { input: '1.04', output: '1.04' }, 131_072, 131_072, ['tools']),
    ],
  },
  {
    name: 'fireworks',
    keyVariable: 'FIREWORKS_API_KEY',
    baseUrl: 'https://api.fireworks.ai/inference/v1',
    dialect: { ...standardQuirks, forwardFields: samplerFields },
    models: [
      model(
        'accounts/fireworks/models/gpt-oss-120b',
        { input: '0.15', output: '0.6', cacheRead: '0.014' },
        131_072,
        32_768,
        ['tools'],
      ),
    ],
  },
  {
    name: 'openrouter',
    keyVariable: 'OPENROUTER_API_KEY',
    baseUrl: 'https://openrouter.ai/api/v1',
    dialect: { ...standardQuirks, forwardFields: [...samplerFields, 'top_a', 'reasoning', 'include_reasoning'] },
    // Hundreds of models with prices that change weekly: the operator declares the ones to sell.
    models: [],
  },
]

function gpt(
  modelId: string,
  prices: CloudPrices,
  longPrompts: CloudPrices,
  quirks: ModelQuirks = { dropFields: [], exclusiveReasoning: true },
): CloudModel {
  return {
    modelId,
    prices,
    contextTokens: 1_050_000,
    maxOutputTokens: 128_000,
    quirks,
    features: ['tools', 'json_schema'],
    speaks: ['responses', 'chat'],
    longPrompts: { ...longPrompts, aboveInputTokens: 272_000 },
  }
}

/** Claude models from 4.7 on answer 400 to sampling settings. */
function claude(modelId: string, prices: CloudPrices): CloudModel {
  const limits = { contextTokens: 1_000_000, maxOutputTokens: 128_000, features: ['tools', 'json_schema'] as const }
  return { modelId, prices, ...limits, quirks: { dropFields: ['temperature', 'top_p'], exclusiveReasoning: false } }
}

/** Writes that last an hour have no price here, so no request asks for them. */
function claudePrices(input: string, output: string, cacheRead: string, cacheWrite: string): CloudPrices {
  return { input, output, cacheRead, cacheWrite }
}

/** A model that embeds. The length of its vectors can be chosen. */
function embedder(modelId: string, inputPrice: string, contextTokens: number): CloudModel {
  return model(modelId, { input: inputPrice, output: '0' }, contextTokens, contextTokens, ['embeddings', 'dimensions'])
}

function model(
  modelId: string,
  prices: CloudPrices,
  contextTokens: number,
  maxOutputTokens: number,
  features: readonly Feature[],
): CloudModel {
  return { modelId, prices, contextTokens, maxOutputTokens, features }
}
