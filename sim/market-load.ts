import type { ChatJob } from '../src/base/domain/chat-job.ts'
import type { Ticket } from '../src/base/domain/handoff.ts'
import type { Offer } from '../src/base/domain/offer.ts'
import { Unserved, UpstreamFailure } from '../src/base/domain/upstream-failure.ts'
import { RatePool } from '../src/base/runtime/rate-pool.ts'
import { createCustomerBreakers } from '../src/market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../src/market/supply/breakers/health.ts'
import { combineLearned, type LearnedOffer } from '../src/market/supply/breakers/learned-offer.ts'
import { eligible } from '../src/request/admit/eligible.ts'
import { createRetryBudget } from '../src/request/dispatch/attempt-log.ts'
import { dispatch } from '../src/request/dispatch/dispatch.ts'
import { type RouteView, route } from '../src/request/route/route.ts'
import { CheckTime } from '../src/wire/dialects/fit/check-time.ts'
import type { UpstreamClient, UpstreamRequest } from '../src/wire/upstreams/upstream-client.ts'
import { createProcess, type Process } from './process.ts'
import { createWorld } from './world.ts'

/** How a server behaves towards one request. */
export type Behaviour = 'answers' | 'fails' | 'hangs'

export interface MarketLoad {
  readonly seed: number
  readonly offers: readonly Offer[]
  readonly jobs: readonly ChatJob[]
  readonly nodes: number
  readonly requestsPerS: number
  readonly seconds: number
  readonly behaviour: (endpointId: string, atMs: number, random: () => number) => Behaviour
  /** How long a server takes to fail. Default: 5 ms. */
  readonly failsAfterMs?: number
  readonly newcomer?: RouteView['newcomer']
}

export interface MarketOutcome {
  readonly requests: number
  /** Requests that no server answered. */
  readonly failed: number
  /** What the servers got: the endpoint and the time of each attempt, ms. */
  readonly attempts: readonly { readonly endpointId: string; readonly atMs: number; readonly node: number }[]
}

const SHARE_EVERY_MS = 5_000
const CUSTOMERS = 20

/**
 * Runs nodes under load in virtual time, with the product's eligibility, routing, dispatch and health. The servers are
 * simulated, and so is the table through which the nodes share what they learn.
 */
export async function runMarketLoad(load: MarketLoad): Promise<MarketOutcome> {
  const world = createWorld(load.seed)
  const attempts: { endpointId: string; atMs: number; node: number }[] = []
  const table = new Map<string, Map<number, { offer: LearnedOffer; atMs: number }>>()
  let requests = 0
  let failed = 0

  for (let node = 0; node < load.nodes; node++) {
    const process = createProcess(world, `node ${node}`, { epochMs: 1_800_000_000_000, driftPpm: 0 })
    const random = world.random.fork().next
    const clock = process.scheduler
    const shared = createHealth({ clock, random })
    const breakers = createCustomerBreakers(shared, createHealth({ clock, random }))
    const retryBudget = createRetryBudget({ clock })
    const checkTime = new CheckTime(clock)
    const upstream = clientOf(process, load.failsAfterMs ?? 5, endpointId => {
      attempts.push({ endpointId, atMs: world.nowMs, node })
      return load.behaviour(endpointId, world.nowMs, random)
    })

    const share = () => {
      for (const [offerId, offer] of shared.takeChanges(1_000)) {
        const rows = table.get(offerId) ?? new Map()
        table.set(offerId, rows.set(node, { offer, atMs: world.nowMs }))
      }
      for (const [offerId, rows] of table) {
        const others = [...rows].filter(([writer]) => writer !== node)
        const reports = others.map(([, { offer, atMs }]) => ({ offer, ageMs: world.nowMs - atMs }))
        if (reports.length > 0) shared.adopt(offerId, combineLearned(reports))
      }
      world.at(world.nowMs + SHARE_EVERY_MS, share)
    }
    world.at(SHARE_EVERY_MS * random(), share)

    const request = async () => {
      requests++
      const customerId = `customer ${Math.floor(random() * CUSTOMERS)}`
      const job = load.jobs[Math.floor(random() * load.jobs.length)]!
      const health = breakers.of(customerId)
      const ticket = { ...ticketOf(customerId), ...eligible(load.offers, job, health) }
      const plan = route(ticket, job, { health, newcomer: load.newcomer }, random)
      const deps = {
        upstream,
        health: breakers,
        clock,
        attemptsMax: 3,
        retryBudget,
        pseudonymise: unchanged,
        noteWork: noop,
        checkTime,
      }
      try {
        const answer = await dispatch(deps, plan, job, { signal: quiet, memory: uncounted })
        if (answer.kind === 'stream') await answer.chunks.read(() => {})
      } catch (failure) {
        if (!(failure instanceof Unserved || failure instanceof UpstreamFailure)) throw failure
        failed++
      }
    }
    for (let n = node; n < load.requestsPerS * load.seconds; n += load.nodes) {
      const begin = () => void request().catch(error => world.fail('requests_end', String(error)))
      world.at((n * 1_000) / load.requestsPerS, begin)
    }
  }
  await world.run((load.seconds + 300) * 1_000)
  if (world.failure) throw new Error(world.failure.why)
  return { requests, failed, attempts }
}

/** The simulated servers read no identifiers. */
const unchanged = (job: ChatJob) => job
const quiet: UpstreamRequest['signal'] = {
  aborted: false,
  reason: undefined,
  addListener: () => {},
  removeListener: () => {},
} as unknown as UpstreamRequest['signal']
const uncounted: UpstreamRequest['memory'] = {
  take: () => true,
  release: () => {},
} as unknown as UpstreamRequest['memory']
const unlimited = new RatePool(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)

function ticketOf(customerId: string): Omit<Ticket, 'eligible' | 'excluded'> {
  return {
    requestId: '',
    hold: { leaseId: '', nanos: 0n, isOpen: true },
    caller: { customerId } as Ticket['caller'],
    startedAtEpochMs: 0,
    startedMonotonicMs: 0,
    models: ['m'],
    maxTokens: 256,
    clamp: null,
    label: null,
  }
}

/** The first content takes 100 to 700 ms, the rest of the answer 400 to 1,600 ms. */
function clientOf(process: Process, failsAfterMs: number, begin: (endpointId: string) => Behaviour): UpstreamClient {
  const send = ({ endpoint, stream, limits }: UpstreamRequest) =>
    new Promise((resolve, reject) => {
      const fault = (outcome: 'server_error' | 'first_token_timeout') => () => reject(new UpstreamFailure(outcome, ''))
      const behaviour = begin(endpoint.endpointId)
      if (behaviour === 'hangs') return process.scheduler.after(limits.firstByteMs, fault('first_token_timeout'))
      if (behaviour === 'fails') return process.scheduler.after(failsAfterMs, fault('server_error'))
      const firstMs = 100 + 600 * spread(endpoint.endpointId, process)
      const restMs = 400 + 1_200 * spread(endpoint.endpointId, process)
      const text = stream ? '' : ANSWER
      const head = {
        status: 200,
        contentType: stream ? 'text/event-stream' : 'application/json',
        contentEncoding: '',
        retryAfter: '',
        retryAfterMs: '',
      }
      const read = async (take: (bytes: Buffer) => unknown) => {
        await take(FIRST_EVENT)
        await new Promise<void>(done => process.scheduler.after(restMs, done))
        await take(LAST_EVENTS)
      }
      const exchange = {
        head,
        text,
        read,
        readText: async () => text,
        release: noop,
        abort: noop,
        lifeSeen: noop,
        contentStarted: noop,
        answerComplete: noop,
      }
      return process.scheduler.after(stream ? firstMs : firstMs + restMs, () => resolve(exchange))
    })
  // Dispatch uses only these members; the others belong to sockets.
  return { send, parsingPool: () => unlimited } as unknown as UpstreamClient
}

const noop = () => {}
/** A number in [0, 1) that depends on the server and the moment. */
function spread(endpointId: string, process: Process): number {
  const mixed = Math.imul(endpointId.length * 31 + Math.floor(process.scheduler.monotonicMs() * 7), 0x9e3779b1)
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
}

const ANSWER =
  '{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140}}'
const FIRST_EVENT = Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
const LAST_EVENTS = Buffer.from('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
