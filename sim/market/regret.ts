import type { ChatJob, ServiceTier } from '../../src/base/domain/chat-job.ts'
import type { Ticket } from '../../src/base/domain/handoff.ts'
import type { Health } from '../../src/base/domain/health.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { limitPercent, standardPriceLimits } from '../../src/base/domain/price-limits.ts'
import type { Clock } from '../../src/base/runtime/scheduler.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import { route } from '../../src/request/route/route.ts'
import { createRandom, type Random } from '../random.ts'

/** What the choices of one service tier cost, compared with an oracle. */
export interface Regret {
  readonly tier: ServiceTier
  readonly requests: number
  readonly failed: number
  /** Mean price and latency of the served requests, relative to the lowest of the servers that are up. */
  readonly price: number
  readonly latency: number
  /** Geometric mean of (the tier's measure of the choice / that of the best server that the promise about prices allows) - 1. */
  readonly regret: number
  /** The same against the best of all servers. The promise forbids a fast one that costs too much. */
  readonly regretOfAll: number
}

const OFFERS = 6
const REQUESTS = 3_000
/** Two requests a second. */
const STEP_MS = 500
const ATTEMPTS_MAX = 3
const OUTPUT_TOKENS = 300

interface Server {
  offer: Offer
  picos: number
  latencyMs: number
  /** Fails everything until then. */
  downUntilMs: number
}

/**
 * Lets one market serve requests in the order that route() ranks its offers. Latencies drift, prices change, servers go down. The oracle
 * knows the price, the latency of this very request and which servers are up; it chooses the best by the measure of
 * the tier: price, price x latency, or latency.
 */
export function measureRegret(seed: number, tier: ServiceTier): Regret {
  const random = createRandom(seed)
  let nowMs = 0
  const clock: Clock = { epochMs: () => nowMs, monotonicMs: () => nowMs }
  const health = createHealth({ clock, random: random.fork().next })
  const servers = Array.from({ length: OFFERS }, (_, at) => createServer(at, random))
  let [failed, served, price, latency, logRegret, logOfAll] = [0, 0, 0, 0, 0, 0]
  for (let at = 0; at < REQUESTS; at++) {
    nowMs += STEP_MS
    for (const server of servers) change(server, random, nowMs)
    const draws = servers.map(({ latencyMs }) => latencyMs * Math.exp(0.3 * (random.next() - 0.5)))
    const up = servers.flatMap((server, index) => (nowMs < server.downUntilMs ? [] : [{ server, ms: draws[index]! }]))
    if (up.length === 0) continue
    const lowest = Math.min(...up.map(({ server }) => server.picos))
    const allowed = up.filter(({ server }) => server.picos <= (lowest * limitPercent(tier, standardPriceLimits)) / 100)
    const chosen = serve(servers, draws, { tier, health, nowMs, random })
    if (chosen === undefined) {
      failed++
      continue
    }
    served++
    price += chosen.server.picos / lowest
    latency += chosen.ms / Math.min(...up.map(({ ms }) => ms))
    logRegret += Math.log(measure(tier, chosen) / lowestMeasure(tier, allowed))
    logOfAll += Math.log(measure(tier, chosen) / lowestMeasure(tier, up))
  }
  return {
    tier,
    requests: REQUESTS,
    failed,
    price: price / served,
    latency: latency / served,
    regret: Math.exp(logRegret / served) - 1,
    regretOfAll: Math.exp(logOfAll / served) - 1,
  }
}

interface Choice {
  readonly server: Server
  readonly ms: number
}

function measure(tier: ServiceTier, { server, ms }: Choice): number {
  if (tier === 'cheapest') return server.picos
  return tier === 'fastest' ? ms : server.picos * ms
}

/** Returns the offers in the order in which route() would try them. */
export function orderedOffers(
  eligible: readonly Offer[],
  { tier, health, random }: { tier: ServiceTier; health: Health; random: Random },
): readonly Offer[] {
  const job = {
    task: 'chat',
    stream: false,
    choices: 1,
    inputTokensBound: 2_000,
    mediaTokensBound: 0,
    features: new Set(),
    constraints: { serviceTier: tier },
  } as unknown as ChatJob
  const ticket = { models: ['m'], eligible, maxTokens: OUTPUT_TOKENS } as unknown as Ticket
  return route(ticket, job, { health }, random.next).offers
}

const lowestMeasure = (tier: ServiceTier, choices: readonly Choice[]) =>
  Math.min(...choices.map(choice => measure(tier, choice)))

function serve(
  servers: readonly Server[],
  draws: readonly number[],
  { tier, health, nowMs, random }: { tier: ServiceTier; health: Health; nowMs: number; random: Random },
): Choice | undefined {
  const offers = orderedOffers(
    servers.map(({ offer }) => offer),
    { tier, health, random },
  )
  let waitedMs = 0
  for (const offer of offers.slice(0, ATTEMPTS_MAX)) {
    const index = servers.findIndex(server => server.offer === offer)
    const server = servers[index]!
    health.beginRequest(offer.offerId)
    const isDown = nowMs < server.downUntilMs
    if (isDown) health.recordFailure(offer.offerId, 'server_error', undefined, nowMs)
    else {
      const totalMs = draws[index]!
      health.recordSuccess(offer.offerId, { firstTokenMs: totalMs / 5, totalMs, outputTokens: OUTPUT_TOKENS }, nowMs)
    }
    health.endRequest(offer.offerId)
    if (!isDown) return { server, ms: draws[index]! + waitedMs }
    waitedMs += FAILURE_MS
  }
  return undefined
}

/** How long a failed attempt takes. */
const FAILURE_MS = 50

function createServer(at: number, random: Random): Server {
  const picos = Math.round(random.skewed(100_000, 1_000_000))
  return { offer: offerOf(at, picos), picos, latencyMs: random.skewed(600, 6_000), downUntilMs: 0 }
}

export function offerOf(at: number, picos: number): Offer {
  return {
    offerId: `e${at}/m`,
    modelId: 'm',
    endpoint: { endpointId: `e${at}`, kind: 'hoster', hosterId: `h${at}`, trustScore: 0.9 },
    price: { inputPicoPerToken: BigInt(picos), outputPicoPerToken: BigInt(picos * 3) },
    contextTokens: 32_768,
    maxOutputTokens: 4_096,
    features: new Set(),
  } as unknown as Offer
}

/** Latencies drift slowly; about every 20 minutes a price changes, and every 10 minutes a server goes down for a minute. */
function change(server: Server, random: Random, nowMs: number): void {
  server.latencyMs = Math.min(8_000, Math.max(400, server.latencyMs * Math.exp(0.02 * (random.next() - 0.5))))
  if (random.chance(STEP_MS / (20 * 60_000))) {
    server.picos = Math.round(random.skewed(100_000, 1_000_000))
    server.offer = { ...server.offer, price: offerOf(0, server.picos).price }
  }
  if (random.chance(STEP_MS / (10 * 60_000))) server.downUntilMs = nowMs + 60_000
}
