import { randomBytes } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { configuredOffers } from '../config/configured-offers.ts'
import type { Offer } from '../domain/offer.ts'
import { declaredNames } from '../supply/detection/declared-names.ts'
import { detectClouds } from '../supply/detection/detect-clouds.ts'
import { detectLocal, type Finding } from '../supply/detection/detect-local.ts'

/** What this process itself can offer: local and cloud endpoints. Hosters come from the database. */
export interface Supply {
  readonly offers: readonly Offer[]
  readonly findings: readonly Finding[]
  /** Stops the demo upstream. */
  close(): Promise<void>
}

/** Starts the demo model, reads the configured endpoints, and looks round for servers and cloud keys nobody configured. */
export async function gatherSupply(config: Config): Promise<Supply> {
  const configured = configuredOffers(config)
  const declared = declaredNames(config.endpoints)
  const { detect } = config
  const locals = detect.enabled
    ? await detectLocal({ price: detect.localPrice, ownPorts: [config.server.port], except: declared })
    : []
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

async function startDemo({ demo: { tokensPerSecond, firstTokenMs, price } }: Config) {
  // Known to this process only, so that nobody gets around the gateway by talking to the demo's port.
  const apiKey = randomBytes(24).toString('base64url')
  // Loaded only when wanted: the demo speaks in tokens, so it needs the tokenizer.
  const { startDemoUpstream } = await import('../demo/start-demo-upstream.ts')
  const { demoOffer } = await import('../demo/demo-offer.ts')
  const upstream = await startDemoUpstream({ tokensPerSecond, firstTokenMs, apiKey })
  return { offer: demoOffer({ baseUrl: upstream.baseUrl, apiKey, price }), close: upstream.close }
}
