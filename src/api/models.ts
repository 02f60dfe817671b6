import { z } from 'zod'
import { type Feature, features } from '../domain/chat-job.ts'
import { type TokenPrice, usdPerMillion } from '../domain/money.ts'
import { type ProviderKind, providerKinds } from '../domain/offer.ts'

/** What a price list says of a model that is offered. */
export interface ListedModel {
  readonly id: string
  /** The most any of its offers takes. */
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** What at least one offer can do. */
  readonly features: ReadonlySet<Feature>
  /** At least one, each with its price range. */
  readonly providerKinds: readonly ProviderKind[]
  readonly prices: Partial<Record<ProviderKind, { readonly cheapest: TokenPrice; readonly dearest: TokenPrice }>>
  /** Unix time in seconds since when it is offered. */
  readonly created: number
  readonly ownedBy: string
  readonly demo: boolean
}

const usdPerMillionTokens = z.number().nonnegative().describe('USD per million tokens.')
const price = { input_usd_per_million: usdPerMillionTokens, output_usd_per_million: usdPerMillionTokens }

/** OpenAI's model object, and what a customer wants to know before choosing. */
export const model = z
  .object({
    id: z.string().describe('What to send as `model`. May contain slashes.'),
    object: z.literal('model'),
    created: z.int().nonnegative().describe('Unix time in seconds since when it is offered.'),
    owned_by: z.string(),
    context_length: z
      .int()
      .positive()
      .describe('Most tokens, input and output together, that any of its servers takes.'),
    max_output_tokens: z.int().positive().describe('Most output tokens that any of its servers generates.'),
    pricing: z
      .object({
        ...price,
        dearest: z.object(price).describe('The dearest offer; equal to the cheapest when all cost the same.'),
      })
      .describe(
        'The cheapest offer, by input plus output price. A request is billed at the price of the server that served it.',
      ),
    providers: z.array(z.enum(providerKinds)).describe('Kinds of providers that offer it.'),
    features: z.array(z.string()).describe(`What at least one of its servers can do: ${features.join(', ')}.`),
    demo: z.boolean().describe('True for the built-in demonstration model, which only strings words together.'),
  })
  .meta({
    id: 'Model',
    examples: [
      {
        id: 'llama-3.3-70b',
        object: 'model',
        created: 1795252195,
        owned_by: 'switchyard',
        context_length: 131072,
        max_output_tokens: 8192,
        pricing: {
          input_usd_per_million: 0.1,
          output_usd_per_million: 0.3,
          dearest: { input_usd_per_million: 0.59, output_usd_per_million: 0.79 },
        },
        providers: ['hoster', 'cloud'],
        features: ['json_schema', 'tools'],
        demo: false,
      },
    ],
  })
export type Model = z.infer<typeof model>

export const modelList = z.object({ object: z.literal('list'), data: z.array(model) }).meta({ id: 'ModelList' })
export type ModelList = z.infer<typeof modelList>

/** All models, by id. */
export function listModels(listed: Iterable<ListedModel>): ModelList {
  const data = [...listed].map(showModel).sort((a, b) => (a.id < b.id ? -1 : 1))
  return { object: 'list', data }
}

export function showModel(listed: ListedModel): Model {
  const ranges = Object.values(listed.prices)
  const cheapest = ranges.map(range => range.cheapest).reduce((a, b) => (sum(b) < sum(a) ? b : a))
  const dearest = ranges.map(range => range.dearest).reduce((a, b) => (sum(b) > sum(a) ? b : a))
  return {
    id: listed.id,
    object: 'model',
    created: listed.created,
    owned_by: listed.ownedBy,
    context_length: listed.contextTokens,
    max_output_tokens: listed.maxOutputTokens,
    pricing: { ...showPrice(cheapest), dearest: showPrice(dearest) },
    providers: [...listed.providerKinds],
    features: [...listed.features].sort(),
    demo: listed.demo,
  }
}

const sum = (price: TokenPrice) => price.inputPicoPerToken + price.outputPicoPerToken

function showPrice(price: TokenPrice) {
  return {
    input_usd_per_million: usdPerMillion(price.inputPicoPerToken),
    output_usd_per_million: usdPerMillion(price.outputPicoPerToken),
  }
}
