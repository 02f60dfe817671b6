import type { ServiceTier } from '../../src/base/domain/chat-job.ts'
import type { Health } from '../../src/base/domain/health.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import { createRandom } from '../random.ts'
import { offerOf, orderedOffers } from './regret.ts'

/** How long requests take, relative to those of an oracle that sends each to the server that is the fastest at that moment. */
export interface Herd {
  readonly tier: ServiceTier
  readonly mean: number
  readonly p99: number
}

const NODES = 10
const SERVERS = 6
const REQUESTS = 20_000
/** A server answers so many requests at once without becoming slower. */
const SLOTS = 8
const BASE_MS_MIN = 800
const BASE_MS_MAX = 2_000
/** The part of what all servers can do together. */
const LOAD = 0.6

/**
 * Lets many nodes choose among the same servers; none knows what the others have sent. The servers have the same price and become slower
 * when they have more requests than slots.
 */
export function measureHerd(seed: number, tier: ServiceTier): Herd {
  const [chosen, best] = [serveAll(seed, tier), serveAll(seed, null)]
  return { tier, mean: chosen.meanMs / best.meanMs, p99: chosen.p99Ms / best.p99Ms }
}

interface Running {
  readonly atMs: number
  end(): void
}

/** @param tier null: the choices of the oracle */
function serveAll(seed: number, tier: ServiceTier | null): { meanMs: number; p99Ms: number } {
  const random = createRandom(seed)
  let nowMs = 0
  const clock = { epochMs: () => nowMs, monotonicMs: () => nowMs }
  const baseMs = Array.from({ length: SERVERS }, () => BASE_MS_MIN + random.next() * (BASE_MS_MAX - BASE_MS_MIN))
  const offers = baseMs.map((_, at) => offerOf(at, 200_000))
  const nodes: Health[] = Array.from({ length: NODES }, () => createHealth({ clock, random: random.fork().next }))
  const [traffic, choices] = [random.fork(), random.fork()]
  const inFlight = baseMs.map(() => 0)
  const perMs = LOAD * baseMs.reduce((sum, ms) => sum + SLOTS / ms, 0)
  /** The first to end comes first. */
  const running: Running[] = []
  const tookMs: number[] = []
  for (let count = 0; count < REQUESTS; count++) {
    const arrivesAtMs = nowMs - Math.log(1 - traffic.next()) / perMs
    while (running.length > 0 && running[0]!.atMs <= arrivesAtMs) {
      const first = running.shift()!
      nowMs = first.atMs
      first.end()
    }
    nowMs = arrivesAtMs
    const health = nodes[Math.floor(traffic.next() * NODES)]!
    const durationOf = (at: number) => baseMs[at]! * Math.max(1, (inFlight[at]! + 1) / SLOTS)
    const index =
      tier === null
        ? offers.map((_, at) => at).reduce((best, at) => (durationOf(at) < durationOf(best) ? at : best))
        : offers.indexOf(orderedOffers(offers, { tier, health, random: choices })[0]!)
    const { offerId } = offers[index]!
    const ms = durationOf(index) * Math.exp(0.3 * (traffic.next() - 0.5))
    const sentMs = nowMs
    inFlight[index]!++
    health.beginRequest(offerId)
    tookMs.push(ms)
    const atMs = nowMs + ms
    const end = () => {
      inFlight[index]!--
      health.recordSuccess(offerId, { firstTokenMs: ms / 5, totalMs: ms, outputTokens: 300 }, sentMs)
      health.endRequest(offerId)
    }
    const place = running.findLastIndex(one => one.atMs <= atMs) + 1
    running.splice(place, 0, { atMs, end })
  }
  const sorted = tookMs.toSorted((a, b) => a - b)
  return { meanMs: tookMs.reduce((sum, ms) => sum + ms, 0) / REQUESTS, p99Ms: sorted[Math.floor(REQUESTS * 0.99)]! }
}
