import type { Feature } from '../domain/chat-job.ts'
import { standardDialect } from '../domain/endpoint-defaults.ts'
import type { Dialect } from '../domain/offer.ts'

/** A cloud that is offered when its key is in the environment. */
export interface CloudPreset {
  /** The endpoint id and what customers see as the owner of its models. */
  readonly name: string
  readonly keyVariable: string
  readonly baseUrl: string
  readonly dialect: Dialect
  readonly models: readonly CloudModel[]
}

export interface CloudModel {
  readonly modelId: string
  /** USD per million tokens, as decimal text. */
  readonly inputPrice: string
  readonly outputPrice: string
  /** Never more than what the price holds for: some clouds charge more for long prompts. */
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: readonly Feature[]
}

/** When the prices below were collected. Clouds change them: check before selling, and declare the model in switchyard.yaml to set your own. */
export const cloudPricesAsOf = '2025-12-01'

/**
 * Of answers that clients send back, where only their own family of servers knows them: LiteLLM issue 30835 for Mistral, Kai issue 265 for Groq. The details are
 * OpenRouter's, the extra content is Gemini's.
 */
const echoedFields = [
  ...['refusal', 'annotations', 'reasoning', 'reasoning_content', 'reasoning_details', 'extra_content'],
  'tool_calls[].extra_content',
].map(field => `messages[].${field}`)

export const cloudPresets: readonly CloudPreset[] = [
  {
    name: 'openai',
    keyVariable: 'OPENAI_API_KEY',
    baseUrl: 'https://api.openai.com/v1',
    // max_tokens is refused by the reasoning models and deprecated for the others.
    dialect: {
      ...standardDialect,
      maxTokensField: 'max_completion_tokens',
      developerRole: false,
      toolCallIds: 'short',
    },
    models: [
      model('gpt-5', '1.25', '10', 400_000, 128_000, ['tools', 'images', 'json_schema']),
      model('gpt-5-mini', '0.25', '2', 400_000, 128_000, ['tools', 'images', 'json_schema']),
      model('gpt-5-nano', '0.05', '0.4', 400_000, 128_000, ['tools', 'images', 'json_schema']),
      model('gpt-4.1', '2', '8', 1_047_576, 32_768, ['tools', 'images', 'json_schema']),
      model('gpt-4.1-mini', '0.4', '1.6', 1_047_576, 32_768, ['tools', 'images', 'json_schema']),
      model('gpt-4o', '2.5', '10', 128_000, 16_384, ['tools', 'images', 'json_schema']),
      // An image is up to 48,000 tokens there (dify issue 7707), of which no more than 2,048 would be paid: src/wire/prompt-size.ts.
      model('gpt-4o-mini', '0.15', '0.6', 128_000, 16_384, ['tools', 'json_schema']),
    ],
  },
  {
    name: 'anthropic',
    keyVariable: 'ANTHROPIC_API_KEY',
    baseUrl: 'https://api.anthropic.com/v1',
    // The vendor's OpenAI layer ignores response_format, so a JSON schema would be a promise nobody keeps.
    dialect: { ...standardDialect, toolCallIds: 'short' },
    models: [
      model('claude-opus-4-5', '5', '25', 200_000, 64_000, ['tools', 'images']),
      model('claude-sonnet-4-5', '3', '15', 200_000, 64_000, ['tools', 'images']),
      model('claude-haiku-4-5', '1', '5', 200_000, 64_000, ['tools', 'images']),
    ],
  },
  {
    name: 'gemini',
    keyVariable: 'GEMINI_API_KEY',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    dialect: standardDialect,
    models: [
      // Prompts above 200,000 tokens cost twice as much at this model, so they are not offered.
      model('gemini-2.5-pro', '1.25', '10', 200_000, 65_536, ['tools', 'images', 'json_schema']),
      model('gemini-2.5-flash', '0.3', '2.5', 1_048_576, 65_536, ['tools', 'images', 'json_schema']),
      model('gemini-2.5-flash-lite', '0.1', '0.4', 1_048_576, 65_536, ['tools', 'images', 'json_schema']),
    ],
  },
  {
    name: 'mistral',
    keyVariable: 'MISTRAL_API_KEY',
    baseUrl: 'https://api.mistral.ai/v1',
    // Answers 422 extra_forbidden to fields it does not know; reports usage in streams without being asked.
    dialect: {
      ...standardDialect,
      streamOptions: false,
      dropFields: [
        ...['user', 'logit_bias', 'logprobs', 'top_logprobs', 'store', 'metadata', 'verbosity'],
        ...['safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'reasoning_effort', 'seed'],
        ...echoedFields,
      ],
      toolCallIds: 'nine',
    },
    models: [
      model('mistral-medium-2508', '0.4', '2', 131_072, 131_072, ['tools', 'images', 'json_schema']),
      model('mistral-small-2506', '0.1', '0.3', 131_072, 131_072, ['tools', 'images', 'json_schema']),
    ],
  },
  {
    name: 'groq',
    keyVariable: 'GROQ_API_KEY',
    baseUrl: 'https://api.groq.com/openai/v1',
    // Documented to answer 400 to these.
    dialect: {
      ...standardDialect,
      dropFields: ['logprobs', 'logit_bias', 'top_logprobs', 'messages[].name', ...echoedFields],
    },
    models: [
      model('llama-3.3-70b-versatile', '0.59', '0.79', 131_072, 32_768, ['tools']),
      model('llama-3.1-8b-instant', '0.05', '0.08', 131_072, 131_072, ['tools']),
    ],
  },
  {
    name: 'deepseek',
    keyVariable: 'DEEPSEEK_API_KEY',
    baseUrl: 'https://api.deepseek.com',
    dialect: standardDialect,
    models: [model('deepseek-chat', '0.28', '0.42', 128_000, 8_192, ['tools'])],
  },
  {
    name: 'together',
    keyVariable: 'TOGETHER_API_KEY',
    baseUrl: 'https://api.together.xyz/v1',
    dialect: standardDialect,
    models: [model('meta-llama/Llama-3.3-70B-Instruct-Turbo', '0.88', '0.88', 131_072, 131_072, ['tools'])],
  },
  {
    name: 'fireworks',
    keyVariable: 'FIREWORKS_API_KEY',
    baseUrl: 'https://api.fireworks.ai/inference/v1',
    dialect: standardDialect,
    models: [model('accounts/fireworks/models/llama-v3p3-70b-instruct', '0.9', '0.9', 131_072, 131_072, ['tools'])],
  },
  {
    name: 'openrouter',
    keyVariable: 'OPENROUTER_API_KEY',
    baseUrl: 'https://openrouter.ai/api/v1',
    dialect: standardDialect,
    // Hundreds of models whose prices move weekly: the operator names the ones to sell.
    models: [],
  },
]

function model(
  modelId: string,
  inputPrice: string,
  outputPrice: string,
  contextTokens: number,
  maxOutputTokens: number,
  features: readonly Feature[],
): CloudModel {
  return { modelId, inputPrice, outputPrice, contextTokens, maxOutputTokens, features }
}
