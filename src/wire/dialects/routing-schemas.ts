import { z } from 'zod'
import { insufficientChoices, type RoutingFields, serviceTiers } from '../../base/domain/chat-job.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { between, boolean, list, modelId } from './field-schemas.ts'

export const routingBounds = {
  fallbackModels: 16,
  hosters: 256,
  maxLatencyMs: 2 ** 31 - 1,
  maxCostUsd: 1_000_000,
  maxUsdPerMillion: 1_000_000,
} as const

// Each `error` text completes the sentence "`param` must be ...".

const maxCostText = `an amount of USD from 0.000000001 to ${routingBounds.maxCostUsd}`
const maxCost = z
  .number({ error: maxCostText })
  .min(1e-9, { error: maxCostText })
  .max(routingBounds.maxCostUsd, { error: maxCostText })
const maxPriceText = `an amount of USD per million tokens from 0.000001 to ${routingBounds.maxUsdPerMillion}`
const maxPrice = z
  .number({ error: maxPriceText })
  .min(1e-6, { error: maxPriceText })
  .max(routingBounds.maxUsdPerMillion, { error: maxPriceText })
const hosterIds = list(
  z.string({ error: 'a hoster UUID' }).regex(UUID, { error: 'a hoster UUID' }),
  routingBounds.hosters,
  'hoster UUIDs',
)

/** The routing fields of every generation endpoint. `routingOf` reads their values. */
export const routingSchemas = {
  tier: z
    .enum(serviceTiers, { error: `one of ${serviceTiers.join(', ')}` })
    .nullish()
    .describe(
      'How to order the servers that can serve the request: `cheapest` by price, `fastest` by predicted latency and load, `balanced` by price, latency and trust. Default `balanced`.',
    ),
  privacy_mode: boolean.nullish().describe('If `true`, never use a cloud. Default `false`.'),
  trusted_only: boolean
    .nullish()
    .describe(
      'If `true`, use no hoster with a trust score of 0.8 or less. Local servers and clouds are not affected. Default `false`.',
    ),
  max_latency_ms: between(1, routingBounds.maxLatencyMs, z.int)
    .nullish()
    .describe(
      'Skip hosters with a higher predicted latency, in milliseconds, or with too few measurements. The latency of a stream is the time to its first content, otherwise the time to the complete answer. Default: no limit.',
    ),
  fallback_models: list(modelId, routingBounds.fallbackModels, 'model ids')
    .nullish()
    .describe(
      'Ids of models to try, in this order, when no server of `model` answers. At most 16. All other constraints apply to them too. Default: none.',
    ),
  allow_hosters: hosterIds
    .nullish()
    .describe(
      'UUIDs of the only hosters to use, at most 256. An empty list allows no hoster. Local servers and clouds are not affected. Default: all hosters.',
    ),
  deny_hosters: hosterIds
    .nullish()
    .describe('UUIDs of hosters never to use, at most 256. Takes precedence over `allow_hosters`. Default: none.'),
  max_cost_usd: maxCost
    .nullish()
    .describe(
      'Maximum cost of the request in USD, rounded down to 9 decimals. 0.000000001 to 1,000,000. `max_tokens` is lowered to what this amount can pay for. Default: no limit.',
    ),
  max_input_usd_per_million: maxPrice
    .nullish()
    .describe(
      'Use no server with a higher input price, in USD per million tokens, rounded down to 6 decimals. 0.000001 to 1,000,000. Default: no limit.',
    ),
  max_output_usd_per_million: maxPrice.nullish().describe('The same for the output price. Default: no limit.'),
  on_insufficient: z
    .enum(insufficientChoices, { error: `one of ${insufficientChoices.join(', ')}` })
    .nullish()
    .describe(
      'What to do if the balance or a spend limit cannot pay for `max_tokens`: `refuse` the request with 402, or `clamp` `max_tokens` to what can be paid for. Default `refuse`.',
    ),
  dry_run: boolean
    .nullish()
    .describe(
      'If `true`, answer with a quote: which servers could serve the request, and what it would cost. Nothing is sent upstream, held or charged. Default `false`.',
    ),
} satisfies Record<keyof RoutingFields, z.ZodType>

// `on_insufficient` and `fallback_models` are left out: there is no max_tokens to lower, and not every task may change
// the model.
const { fallback_models: _, on_insufficient: __, ...routing } = routingSchemas

/** The routing fields of a task that generates no text. */
export const inputRoutingSchemas = {
  ...routing,
  max_latency_ms: routing.max_latency_ms.describe(
    'Skip hosters with a higher predicted latency, in milliseconds, or with too few measurements. Default: no limit.',
  ),
  max_cost_usd: routing.max_cost_usd.describe(
    'Maximum cost of the request in USD, rounded down to 9 decimals. 0.000000001 to 1,000,000. Servers that may cost more are not used. Default: no limit.',
  ),
}
