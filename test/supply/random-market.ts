import fc from 'fast-check'
import { type ChatJob, type Feature, preferences } from '../../src/base/domain/chat-job.ts'
import { localTimeouts, standardQuirks } from '../../src/base/domain/endpoint-defaults.ts'
import type { HealthView, OfferState } from '../../src/base/domain/health.ts'
import type { Offer, ProviderKind } from '../../src/base/domain/offer.ts'

/** A random market: offers, a job and the health of each offer. */
export interface RandomMarket {
  readonly offers: readonly Offer[]
  readonly job: ChatJob
  readonly health: HealthView
  readonly cloudCompetes: boolean
  readonly stickyOfferId: string | null
  /** Seed of the injected random numbers. */
  readonly seed: number
}

export function offerOf(
  given: Partial<Offer> & {
    kind?: ProviderKind
    hosterId?: string
    trustScore?: number
    name?: string
    demo?: boolean
  } = {},
): Offer {
  const { kind = 'local', hosterId = null, trustScore = null, name = kind, demo = false, ...more } = given
  const modelId = more.modelId ?? 'm'
  return {
    offerId: `${name}/${modelId}`,
    endpoint: {
      endpointId: name,
      kind,
      hosterId,
      name,
      baseUrl: 'http://127.0.0.1:9/v1',
      apiKey: null,
      dialect: standardQuirks,
      timeouts: localTimeouts,
      trustScore,
      hosterShareBps: kind === 'hoster' ? 8_000 : 0,
      demo,
      egress: 'any',
    },
    modelId,
    upstreamModel: modelId,
    price: { inputPicoPerToken: 100_000n, outputPicoPerToken: 400_000n },
    contextTokens: 32_768,
    maxOutputTokens: 8_192,
    features: new Set<Feature>(['tools', 'images', 'json_schema']),
    ...more,
  }
}

export function jobOf(
  given: Omit<Partial<ChatJob>, 'constraints'> & { constraints?: Partial<ChatJob['constraints']> } = {},
): ChatJob {
  return {
    task: 'chat',
    model: 'm',
    stream: false,
    includeUsage: false,
    maxTokens: null,
    onInsufficient: 'refuse',
    maxCostNanos: null,
    dryRun: false,
    openPreferences: new Set(preferences),
    choices: 1,
    features: new Set(),
    inputTokensBound: 400,
    promptText: () => '',
    promptTextBytes: 0,
    mediaTokensBound: 0,
    messageCount: 1,
    hasStop: false,
    sessionKey: null,
    forward: {},
    extraFields: [],
    droppedFields: [],
    ...given,
    constraints: {
      serviceTier: 'balanced',
      privacyMode: false,
      trustedOnly: false,
      maxLatencyMs: null,
      fallbackModels: [],
      allowHosters: null,
      denyHosters: new Set(),
      ...given.constraints,
    },
  }
}

/** Health in which all offers are open and unmeasured, except as given by offer id. */
export function healthOf(
  known: Record<
    string,
    {
      state?: OfferState
      ejectedForMs?: number
      predictedMs?: number | null
      isMeasured?: boolean
      inFlight?: number
      share?: number
    }
  > = {},
): HealthView {
  const state = (id: string) => known[id]?.state ?? 'open'
  const predictMs = (id: string) => known[id]?.predictedMs ?? null
  const inFlight = (id: string) => known[id]?.inFlight ?? 0
  return {
    state,
    ejectedForMs: id => known[id]?.ejectedForMs ?? (known[id]?.state === 'ejected' ? 1_000 : 0),
    predictMs,
    firstTokenP95Ms: () => null,
    inFlight,
    read: id => ({
      state: state(id),
      predictedMs: predictMs(id),
      isMeasured: known[id]?.isMeasured ?? predictMs(id) !== null,
      inFlight: inFlight(id),
      share: known[id]?.share ?? 1,
    }),
  }
}

const hosterIds = ['a', 'b', 'c', 'd', 'e', 'f'].map(letter => `00000000-0000-4000-8000-00000000000${letter}`)
const modelIds = ['m1', 'm2', 'm3']
const features: Feature[] = ['tools', 'images', 'audio', 'json_schema']

const price = fc.oneof(fc.constant(0n), fc.bigInt({ min: 1n, max: 100_000_000n }))

const offer = fc
  .record({
    kind: fc.constantFrom<ProviderKind>('local', 'hoster', 'cloud'),
    hosterId: fc.constantFrom(...hosterIds),
    trustScore: fc.constantFrom(0, 0.5, 0.79, 0.8, 0.81, 1),
    name: fc.integer({ min: 0, max: 4 }),
    modelId: fc.constantFrom(...modelIds),
    input: price,
    output: price,
    contextTokens: fc.constantFrom(256, 4_096, 32_768, 131_072),
    maxOutputTokens: fc.constantFrom(64, 2_048, 8_192),
    features: fc.oneof(fc.constant(features), fc.subarray(features)),
    demo: fc.integer({ min: 0, max: 9 }).map(n => n === 0),
    state: fc.constantFrom<OfferState>('open', 'open', 'probing', 'ejected'),
    ejectedForMs: fc.integer({ min: 1, max: 300_000 }),
    predictedMs: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 20_000 })),
    inFlight: fc.integer({ min: 0, max: 5 }),
  })
  .map(
    ({
      kind,
      hosterId,
      trustScore,
      name,
      input,
      output,
      state,
      ejectedForMs,
      predictedMs,
      inFlight,
      features,
      ...more
    }) => ({
      offer: offerOf({
        ...more,
        kind,
        name: `${kind}-${kind === 'hoster' ? hosterId : name}`,
        ...(kind === 'hoster' && { hosterId, trustScore }),
        price: { inputPicoPerToken: input, outputPicoPerToken: output },
        features: new Set(features),
      }),
      known: { state, ejectedForMs: state === 'ejected' ? ejectedForMs : 0, predictedMs, inFlight },
    }),
  )

const constraints = fc.record({
  serviceTier: fc.constantFrom('cheapest', 'balanced', 'fastest'),
  privacyMode: fc.boolean(),
  trustedOnly: fc.boolean(),
  maxLatencyMs: fc.oneof({ arbitrary: fc.constant(null), weight: 3 }, fc.integer({ min: 1, max: 20_000 })),
  fallbackModels: fc.array(fc.constantFrom(...modelIds, 'auto', 'unknown'), { maxLength: 3 }),
  allowHosters: fc.oneof(
    { arbitrary: fc.constant(null), weight: 2 },
    fc.subarray(hosterIds).map(ids => new Set(ids)),
  ),
  denyHosters: fc.oneof(fc.constant([]), fc.subarray(hosterIds)).map(ids => new Set(ids)),
})

/** Generates markets of up to 12 offers of three models, with jobs that name a model or `auto`, and fallbacks. */
export const randomMarket: fc.Arbitrary<RandomMarket> = fc
  .record({
    supply: fc.uniqueArray(offer, { selector: ({ offer }) => offer.offerId, minLength: 1, maxLength: 12 }),
    model: fc.constantFrom(...modelIds, 'auto'),
    constraints,
    stream: fc.boolean(),
    maxTokens: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 10_000 })),
    choices: fc.constantFrom(1, 1, 3),
    features: fc.oneof(fc.constant([]), fc.subarray(features, { maxLength: 1 })),
    textBytes: fc.integer({ min: 64, max: 200_000 }),
    mediaTokensBound: fc.constantFrom(0, 0, 1_500),
    cloudCompetes: fc.boolean(),
    sticky: fc.option(fc.nat({ max: 11 })),
    seed: fc.nat(),
  })
  .map(({ supply, constraints, features, textBytes, mediaTokensBound, sticky, cloudCompetes, seed, ...request }) => {
    const offers = supply.map(({ offer }) => offer)
    return {
      offers,
      job: jobOf({
        ...request,
        features: new Set(features),
        inputTokensBound: textBytes + mediaTokensBound,
        mediaTokensBound,
        constraints: constraints as ChatJob['constraints'],
      }),
      health: healthOf(Object.fromEntries(supply.map(({ offer, known }) => [offer.offerId, known]))),
      cloudCompetes,
      stickyOfferId: sticky === null ? null : (offers[sticky]?.offerId ?? null),
      seed,
    }
  })

/** Returns a generator of numbers in [0, 1) that depends only on the seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
