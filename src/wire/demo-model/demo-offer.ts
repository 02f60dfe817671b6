import { standardQuirks, standardTimeouts } from '../../base/domain/endpoint-defaults.ts'
import type { TokenPrice } from '../../base/domain/money.ts'
import { DEMO_MODEL, type Offer } from '../../base/domain/offer.ts'
import { CONTEXT_TOKENS, MAX_OUTPUT_TOKENS } from './demo-request.ts'

/** Returns the demo model as an ordinary offer: reached over loopback, priced, billed, and labelled as a demo. */
export function demoOffer(upstream: { baseUrl: string; apiKey: string; price: TokenPrice }): Offer {
  return {
    offerId: `demo/${DEMO_MODEL}`,
    endpoint: {
      endpointId: 'demo',
      kind: 'local',
      hosterId: null,
      name: 'switchyard-demo',
      baseUrl: upstream.baseUrl,
      apiKey: upstream.apiKey,
      dialect: { ...standardQuirks, developerToSystem: false },
      timeouts: standardTimeouts,
      trustScore: null,
      hosterShareBps: 0,
      demo: true,
      egress: 'any',
    },
    modelId: DEMO_MODEL,
    upstreamModel: DEMO_MODEL,
    price: upstream.price,
    contextTokens: CONTEXT_TOKENS,
    maxOutputTokens: MAX_OUTPUT_TOKENS,
    features: new Set(['tools', 'images', 'json_schema', 'completions', 'embeddings', 'dimensions', 'rerank']),
  }
}
