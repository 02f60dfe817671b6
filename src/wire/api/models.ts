import { z } from 'zod'
import { type Feature, features, serviceTiers } from '../../base/domain/chat-job.ts'
import { type OfferPrice, stepOf, type TokenPrice, usdPerMillion } from '../../base/domain/money.ts'
import { type ProviderKind, providerKinds } from '../../base/domain/offer.ts'
import { limitPercent, type PriceLimits } from '../../base/domain/price-limits.ts'
import { openRouterKeys, openRouterPricing, showOpenRouterKeys, showOpenRouterPricing } from './openrouter-model.ts'

/** An available model, combined from all its offers. */
export interface ListedModel {
  readonly id: string
  /** The largest context of any of its offers. */
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** Every feature that at least one offer supports. */
  readonly features: ReadonlySet<Feature>
  /** At least one. Each has a price range in `prices`. */
  readonly providerKinds: readonly ProviderKind[]
  readonly prices: Partial<Record<ProviderKind, { readonly lowest: OfferPrice; readonly highest: OfferPrice }>>
  /** The highest price of any input and of any output token at any offer. */
  readonly mostPerToken: TokenPrice
  /** When it was first offered, in Unix seconds. */
  readonly created: number
  readonly ownedBy: string
  readonly demo: boolean
}

const usdPerMillionTokens = z.number().nonnegative().describe('Price in USD per million tokens.')
const price = {
  input_usd_per_million: usdPerMillionTokens,
  output_usd_per_million: usdPerMillionTokens,
  cache_read_usd_per_million: usdPerMillionTokens.describe(
    'Price of input tokens that the server reads from its prompt cache, in USD per million.',
  ),
}

const percent = z.int().min(100)

const example = {
  id: 'llama-3.3-70b',
  object: 'model',
  created: 1795252195,
  owned_by: 'switchyard',
  context_length: 131072,
  max_output_tokens: 8192,
  pricing: {
    input_usd_per_million: 0.1,
    output_usd_per_million: 0.3,
    cache_read_usd_per_million: 0.02,
    prompt: '0.0000001',
    completion: '0.0000003',
    input_cache_read: '0.00000002',
    input_cache_write: '0.0000001',
    request: '0',
    dearest: { input_usd_per_million: 0.59, output_usd_per_million: 0.79, cache_read_usd_per_million: 0.59 },
    at_most: { input_usd_per_million: 0.59, output_usd_per_million: 0.79 },
    first_server_percent: { cheapest: 100, balanced: 150, fastest: 300, local: 100 },
  },
  providers: ['hoster', 'cloud'],
  features: ['json_schema', 'tools'],
  name: 'llama-3.3-70b',
  architecture: { input_modalities: ['text'], output_modalities: ['text'] },
  supported_parameters: ['max_tokens', 'temperature', 'tools', 'tool_choice', 'response_format'],
  top_provider: { context_length: 131072, max_completion_tokens: 8192, is_moderated: false },
  demo: false,
} as const

/** OpenAI's model object, extended by limits, prices and features. */
export const model = z
  .object({
    id: z.string().describe('Value for `model` in a request. May contain slashes.'),
    object: z.literal('model'),
    created: z.int().nonnegative().describe('When the model was first offered, in Unix seconds.'),
    owned_by: z.string().describe('Name of the endpoint if only one offers the model, otherwise `switchyard`.'),
    context_length: z
      .int()
      .positive()
      .describe('Largest context of any server that offers the model, in tokens of input and output together.'),
    max_output_tokens: z
      .int()
      .positive()
      .describe('Largest number of output tokens of any server that offers the model.'),
    pricing: z
      .object({
        ...price,
        ...openRouterPricing,
        dearest: z
          .object(price)
          .describe('The most expensive offer, by input plus output price. Equals the cheapest if all cost the same.'),
        at_most: z
          .object({ input_usd_per_million: usdPerMillionTokens, output_usd_per_million: usdPerMillionTokens })
          .describe(
            'The most that a token of a request can cost, with every offer and every kind of token of its prompt except media, when all cheaper servers have failed. `max_input_usd_per_million` and `max_output_usd_per_million` of a request set lower limits.',
          ),
        first_server_percent: z
          .object({
            ...Object.fromEntries(serviceTiers.map(tier => [tier, percent])),
            local: percent.describe('For the servers of the operator, with every tier, unless the tier allows more.'),
          })
          .describe(
            'How much the server that is tried first may cost by `tier`, in percent of the cheapest server that can take the request.',
          ),
      })
      .describe(
        'The cheapest offer, by input plus output price. A request is billed at the price of the server that served it.',
      ),
    providers: z.array(z.enum(providerKinds)).describe('Kinds of providers that offer the model.'),
    features: z
      .array(z.string())
      .describe(`Features that at least one server supports, out of: ${features.join(', ')}.`),
    ...openRouterKeys,
    demo: z.boolean().describe('True for the built-in demo model, which generates text without meaning.'),
  })
  .meta({
    id: 'Model',
    examples: [example],
  })
export type Model = z.infer<typeof model>

export const modelList = z
  .object({ object: z.literal('list'), data: z.array(model) })
  .meta({ id: 'ModelList', examples: [{ object: 'list', data: [example] }] })
export type ModelList = z.infer<typeof modelList>

/** Returns all models, sorted by id. */
export function listModels(listed: Iterable<ListedModel>, limits: PriceLimits): ModelList {
  const data = [...listed].map(each => showModel(each, limits)).sort((a, b) => (a.id < b.id ? -1 : 1))
  return { object: 'list', data }
}

export function showModel(listed: ListedModel, limits: PriceLimits): Model {
  const ranges = Object.values(listed.prices)
  const lowest = ranges.map(range => range.lowest).reduce((a, b) => (sum(b) < sum(a) ? b : a))
  const highest = ranges.map(range => range.highest).reduce((a, b) => (sum(b) > sum(a) ? b : a))
  return {
    id: listed.id,
    object: 'model',
    created: listed.created,
    owned_by: listed.ownedBy,
    context_length: listed.contextTokens,
    max_output_tokens: listed.maxOutputTokens,
    pricing: {
      ...showPrice(lowest),
      ...showOpenRouterPricing(lowest),
      dearest: showPrice(highest),
      at_most: {
        input_usd_per_million: usdPerMillion(listed.mostPerToken.inputPicoPerToken),
        output_usd_per_million: usdPerMillion(listed.mostPerToken.outputPicoPerToken),
      },
      first_server_percent: {
        ...Object.fromEntries(serviceTiers.map(tier => [tier, limitPercent(tier, limits)])),
        local: limits.localPercent,
      },
    },
    providers: [...listed.providerKinds],
    features: [...listed.features].sort(),
    ...showOpenRouterKeys(listed),
    demo: listed.demo,
  }
}

const sum = (price: OfferPrice) => price.inputPicoPerToken + price.outputPicoPerToken

function showPrice(price: OfferPrice) {
  const cacheRead = price.terms === undefined ? price.inputPicoPerToken : stepOf(price.terms, 0).parts.cache_read
  return {
    input_usd_per_million: usdPerMillion(price.inputPicoPerToken),
    output_usd_per_million: usdPerMillion(price.outputPicoPerToken),
    cache_read_usd_per_million: usdPerMillion(cacheRead),
  }
}
