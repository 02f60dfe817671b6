import { randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { configuredOffers } from '../config/configured-offers.ts'
import type { Offer } from '../domain/offer.ts'
import { askDeclaredContexts } from '../supply/detection/ask-declared-contexts.ts'
import { declaredNames } from '../supply/detection/declared-names.ts'
import { detectClouds } from '../supply/detection/detect-clouds.ts'
import { detectLocal, type Finding } from '../supply/detection/detect-local.ts'

/** The offers of local and cloud endpoints. Hosters come from the database. */
export interface GatheredOffers {
  readonly offers: readonly Offer[]
  readonly findings: readonly Finding[]
  /** Stops the demo upstream. */
  close(): Promise<void>
}

/**
 * Starts the demo model, reads the configured endpoints, and detects local servers and cloud keys that are not
 * configured.
 */
export async function gatherOffers(config: Config): Promise<GatheredOffers> {
  const declared = declaredNames(config.endpoints)
  const { detect } = config
  const detecting = detect.enabled
    ? detectLocal({ price: detect.localPrice, ownPorts: [config.server.port], except: declared })
    : []
  const [configured, locals] = await Promise.all([declaredOffers(config), detecting])
  const clouds = detect.enabled && detect.cloud ? detectClouds(detect.cloudKeys, declared) : []
  const demo = config.demo.enabled ? await startDemo(config) : undefined
  return {
    offers: [
      ...configured,
      ...locals.flatMap(local => local.offers),
      ...clouds.flatMap(cloud => cloud.offers),
      ...(demo ? [demo.offer] : []),
    ],
    findings: [...locals, ...clouds].map(({ finding }) => finding),
    close: async () => demo?.close(),
  }
}

/** Returns the configured offers. Asks local servers for the contexts that the configuration leaves out. */
async function declaredOffers(config: Config): Promise<Offer[]> {
  const unknown = config.endpoints.flatMap(endpoint => {
    const models = endpoint.models.filter(model => model.context_tokens === undefined)
    return endpoint.kind === 'local' && models.length > 0 ? [{ ...endpoint, models }] : []
  })
  return configuredOffers(config, await askDeclaredContexts(configuredOffers({ endpoints: unknown })))
}

async function startDemo({ demo: { tokensPerSecond, firstTokenMs, price } }: Config) {
  // A random key that only this process knows, so that clients cannot bypass the gateway through the demo's port.
  const apiKey = randomBytes(24).toString('base64url')
  // Loaded only when enabled, because the demo needs the tokenizer.
  const { startDemoUpstream } = await import('../demo/start-demo-upstream.ts')
  const { demoOffer } = await import('../demo/demo-offer.ts')
  const upstream = await startDemoUpstream({ tokensPerSecond, firstTokenMs, apiKey })
  return { offer: demoOffer({ baseUrl: upstream.baseUrl, apiKey, price }), close: upstream.close }
}
