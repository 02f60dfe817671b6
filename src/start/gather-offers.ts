import { randomBytes } from 'node:crypto'
import type { Offer } from '../base/domain/offer.ts'
import type { Log } from '../base/runtime/log.ts'
import { systemScheduler } from '../base/runtime/scheduler.ts'
import { askDeclaredContexts } from '../market/supply/detection/ask-declared-contexts.ts'
import { declaredNames } from '../market/supply/detection/declared-names.ts'
import { detectClouds } from '../market/supply/detection/detect-clouds.ts'
import { detectLocal, type Finding, localServersAt } from '../market/supply/detection/detect-local.ts'
import { LocalWatch } from '../market/supply/detection/local-watch.ts'
import type { Config } from './config/config.ts'
import { configuredOffers } from './config/configured-offers.ts'

/** The offers of local and cloud endpoints. Hosters come from the database. */
export interface GatheredOffers {
  readonly offers: readonly Offer[]
  readonly findings: readonly Finding[]
  /** From now on, looks for changes of the models of local servers. Calls `onChange` with all offers. */
  watch(log: Pick<Log, 'info'>, onChange: (offers: readonly Offer[]) => void): void
  /** Replaces the declared endpoints by those of another configuration, and calls `onChange` of `watch` with all offers. */
  redeclare(changed: Config): Promise<void>
  /** Stops the demo upstream and the watch. */
  close(): Promise<void>
}

/** A start waits for the answers of local servers, so it waits half a second at most. Later looks have time. */
const LOOK_TIMEOUT_MS = 5_000

/**
 * Starts the demo model, reads the configured endpoints, and detects local servers and cloud keys that are not
 * configured.
 */
export async function gatherOffers(config: Config): Promise<GatheredOffers> {
  const { detect } = config
  const servers = localServersAt(detect.ports)
  // Detection reads it at each look.
  const declared = new Set(declaredNames(config.endpoints, servers))
  const local = { price: detect.localPrice, ownPorts: [config.server.port], except: declared, servers }
  const detecting = detect.enabled ? detectLocal(local) : []
  const [declaredAtStart, locals] = await Promise.all([declaredOffers(config), detecting])
  let configured = declaredAtStart
  // All of them: one that is declared now is offered when another configuration does not declare it.
  const clouds = detect.enabled && detect.cloud ? detectClouds(detect.cloudKeys) : []
  const demo = config.demo.enabled ? await startDemo(config) : undefined
  let localOffers: readonly Offer[] = locals.flatMap(({ offers }) => offers)
  const all = () => [
    ...configured,
    ...[...localOffers, ...clouds.flatMap(({ offers }) => offers)].filter(
      ({ endpoint }) => !declared.has(endpoint.endpointId),
    ),
    ...(demo ? [demo.offer] : []),
  ]
  let watch: LocalWatch | undefined
  let onChange: (offers: readonly Offer[]) => void = () => {}
  return {
    offers: all(),
    findings: [...locals, ...clouds.filter(({ finding }) => !declared.has(finding.name))].map(({ finding }) => finding),
    watch(log, listener) {
      onChange = listener
      if (!detect.enabled || detect.repeatSeconds === 0) return
      watch = new LocalWatch({
        ...local,
        timeoutMs: LOOK_TIMEOUT_MS,
        found: locals,
        intervalMs: detect.repeatSeconds * 1_000,
        onChange: offers => {
          localOffers = offers
          onChange(all())
        },
        scheduler: systemScheduler,
        random: Math.random,
        log,
      })
      watch.start()
    },
    async redeclare(changed) {
      configured = await declaredOffers(changed)
      declared.clear()
      for (const name of declaredNames(changed.endpoints, servers)) declared.add(name)
      onChange(all())
    },
    async close() {
      watch?.stop()
      await demo?.close()
    },
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
  const { startDemoUpstream } = await import('../wire/demo-model/start-demo-upstream.ts')
  const { demoOffer } = await import('../wire/demo-model/demo-offer.ts')
  const upstream = await startDemoUpstream({ tokensPerSecond, firstTokenMs, apiKey })
  return { offer: demoOffer({ baseUrl: upstream.baseUrl, apiKey, price }), close: upstream.close }
}
