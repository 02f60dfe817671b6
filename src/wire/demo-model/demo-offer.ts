import { standardQuirks, standardTimeouts } from '../../base/domain/endpoint-defaults.ts'
import type { TokenPrice } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { systemFingerprint } from './chat-bodies.ts'
import { demoModel } from './demo-model.ts'

/** Returns the demo model as an ordinary offer: reached over loopback, priced, billed, and labelled as a demo. */
export function demoOffer(upstream: { baseUrl: string; apiKey: string; price: TokenPrice }): Offer {
  return {
    offerId: `demo/${demoModel.id}`,
    endpoint: {
      endpointId: 'demo',
      kind: 'local',
      hosterId: null,
      name: systemFingerprint,
      baseUrl: upstream.baseUrl,
      apiKey: upstream.apiKey,
      dialect: { ...standardQuirks, developerToSystem: false },
      timeouts: standardTimeouts,
      trustScore: null,
      hosterShareBps: 0,
      demo: true,
      egress: 'any',
    },
    modelId: demoModel.id,
    upstreamModel: demoModel.id,
    price: upstream.price,
    contextTokens: demoModel.contextTokens,
    maxOutputTokens: demoModel.maxOutputTokens,
    features: new Set(['tools', 'images', 'json_schema', 'completions', 'embeddings', 'dimensions', 'rerank']),
  }
}
