import { type MarketLoad, runMarketLoad } from '../sim/market-load.ts'
import { serviceTiers } from '../src/base/domain/chat-job.ts'
import { standardTimeouts } from '../src/base/domain/endpoint-defaults.ts'
import { createCustomerBreakers } from '../src/market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../src/market/supply/breakers/health.ts'
import { route } from '../src/request/route/route.ts'
import { jobOf, offerOf } from '../test/supply/random-market.ts'
import { readMachine, reportHead } from './machine.ts'
import { markdownPage, markdownTable } from './markdown.ts'
import { writeReport } from './write-report.ts'

// What failing hosters cost users and servers, in virtual time, and how long routing takes. Takes half a minute.

const SEEDS = 5
/** Lengths of the load. In a short one, the requests that wait at a silent hoster are a larger part. */
const LOAD_SECONDS = [40, 90, 150]
const BROKEN_AT_MS = 30_000

const hosters = Array.from({ length: 12 }, (_, index) => {
  const price = { inputPicoPerToken: BigInt(100 + index), outputPicoPerToken: BigInt(100 + index) }
  const offer = offerOf({ name: `h${index}`, kind: 'hoster', hosterId: `h${index}`, trustScore: 1, price })
  return { ...offer, endpoint: { ...offer.endpoint, timeouts: standardTimeouts } }
})

async function marketRows(): Promise<string[][]> {
  const rows: string[][] = []
  for (const tier of serviceTiers) {
    const outcomes = { lateToBroken: 0, halfRequests: 0, halfAttempts: 0 }
    const holes = LOAD_SECONDS.map(seconds => ({ seconds, requests: 0, failed: 0 }))
    for (let seed = 1; seed <= SEEDS; seed++) {
      const load = (seconds: number, behaviour: MarketLoad['behaviour']): MarketLoad => ({
        seed,
        offers: hosters.slice(0, 3),
        jobs: [true, false].map(stream => jobOf({ stream, maxTokens: 256, constraints: { serviceTier: tier } })),
        nodes: 2,
        requestsPerS: 60,
        seconds,
        behaviour,
      })
      const isBroken = (endpointId: string, atMs: number) => endpointId === 'h0' && atMs >= BROKEN_AT_MS
      for (const sums of holes) {
        const hole = await runMarketLoad(load(sums.seconds, (id, atMs) => (isBroken(id, atMs) ? 'hangs' : 'answers')))
        sums.requests += hole.requests
        sums.failed += hole.failed
        if (sums !== holes.at(-1)) continue
        const late = hole.attempts.filter(({ endpointId, atMs }) => isBroken(endpointId, atMs - 10_000))
        outcomes.lateToBroken += late.length
      }
      const half = await runMarketLoad(load(150, (_id, _atMs, random) => (random() < 0.5 ? 'fails' : 'answers')))
      outcomes.halfRequests += half.requests
      outcomes.halfAttempts += half.attempts.length
    }
    rows.push([
      tier,
      ...holes.map(({ failed, requests }) => `${failed} of ${requests}`),
      (outcomes.lateToBroken / SEEDS / 2).toFixed(1),
      (outcomes.halfAttempts / outcomes.halfRequests).toFixed(3),
    ])
  }
  return rows
}

function routeRows(): string[][] {
  const clock = { epochMs: Date.now, monotonicMs: () => performance.now() }
  const shared = createHealth({ clock, random: Math.random })
  const health = createCustomerBreakers(shared, createHealth({ clock, random: Math.random })).of('customer')
  const attempt = (offerId: string) => {
    const sentMs = clock.monotonicMs()
    health.beginRequest(offerId)
    health.recordSuccess(offerId, { firstTokenMs: 100, totalMs: 900, outputTokens: 40, inputTokens: 300 }, sentMs)
    health.endRequest(offerId)
  }
  for (const { offerId } of hosters) for (let n = 0; n < 50; n++) attempt(offerId)
  const rows = [['record one attempt', '', bestMicros(() => attempt(hosters[0]!.offerId)).toFixed(2)]]
  for (const count of [1, 3, 12]) {
    const ticket = {
      requestId: '',
      hold: { leaseId: '', nanos: 0n, isOpen: true },
      caller: {} as never,
      startedAtEpochMs: 0,
      startedMonotonicMs: 0,
      models: ['m'],
      eligible: hosters.slice(0, count),
      excluded: [],
      maxTokens: 256,
      clamp: null,
      label: null,
    }
    for (const serviceTier of serviceTiers) {
      const job = jobOf({ stream: true, constraints: { serviceTier } })
      const micros = bestMicros(() => route(ticket, job, { health, newcomer: () => 'none' }, Math.random))
      rows.push([`route, ${serviceTier}`, String(count), micros.toFixed(2)])
    }
  }
  return rows
}

/** Microseconds of one call, the best of several rounds. */
function bestMicros(call: () => unknown): number {
  let best = Infinity
  for (let round = 0; round < 15; round++) {
    const startedMs = performance.now()
    for (let n = 0; n < 10_000; n++) call()
    best = Math.min(best, (performance.now() - startedMs) / 10)
  }
  return best
}

const text = markdownPage([
  reportHead('Routing', 'npm run bench:routing', readMachine(null), []),
  `## Failing hosters

Two nodes, three hosters, 60 requests a second, half of them streamed, ${SEEDS} seeds, in virtual time: the eligibility, routing, dispatch and
health of the product, and simulated servers. First, one hoster of three swallows all requests from 30 s on. Then, for 150 s, all three fail half of their requests.`,
  markdownTable(
    [
      'tier',
      ...LOAD_SECONDS.map(seconds => `failed for users, one silent, ${seconds} s of load`),
      'attempts at it per node after 10 s',
      'attempts per request, all at 50%',
    ],
    await marketRows(),
  ),
  '## Time\n\nBest of 15 rounds of 10,000 calls.',
  markdownTable(['', 'offers', 'µs'], routeRows()),
])
process.stdout.write(text)
process.stderr.write(`\nWrote ${writeReport('routing', text)}\n`)
