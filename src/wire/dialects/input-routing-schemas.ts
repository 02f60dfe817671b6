import { routingSchemas } from './routing-schemas.ts'

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
