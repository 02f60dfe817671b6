import { askDeclaredContexts } from '../../market/supply/detection/ask-declared-contexts.ts'
import { configuredOffers } from '../../start/config/configured-offers.ts'
import type { EndpointSettings } from '../../start/config/schema.ts'
import { CHECK_TIMEOUT_MS, type Finding } from './finding.ts'

/**
 * Warns of local models that have less context at their server than `context_tokens` says: Ollama cuts off the
 * beginning of longer prompts without an error. A model without `context_tokens` gets what the server reports.
 */
export async function checkContexts(endpoints: readonly EndpointSettings[]): Promise<Finding[]> {
  const offers = configuredOffers({
    endpoints: endpoints
      .filter(({ kind }) => kind === 'local')
      .map(endpoint => ({ ...endpoint, models: endpoint.models.filter(model => model.context_tokens !== undefined) })),
  })
  const contexts = await askDeclaredContexts(offers, CHECK_TIMEOUT_MS)
  return offers.flatMap(({ offerId, contextTokens, endpoint, modelId }): Finding[] => {
    const reported = contexts.get(offerId)
    if (reported === undefined || reported >= contextTokens) return []
    return [
      {
        check: `context of ${modelId}`,
        ok: true,
        warning: true,
        detail: `${endpoint.name} reports ${reported} tokens, but context_tokens is ${contextTokens}: the server refuses longer prompts or cuts them off. Lower context_tokens, or start the server with a larger context.`,
      },
    ]
  })
}
