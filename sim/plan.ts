import type { Admission } from '../src/money/ledger/leases/admission.ts'
import type { Customer } from './customer.ts'
import type { GatewayConfig } from './gateway.ts'
import { idOf } from './id-of.ts'
import { endpointIdOf, type Pricing, planPricing, withWindows } from './pricing.ts'
import type { Random } from './random.ts'
import { type TroublePlan, troubleKinds } from './upstreams.ts'

/** Everything that a seed determines before the run starts. */
export interface Plan {
  readonly epochMs: number
  /** Clients send requests during this time. */
  readonly loadMs: number
  readonly slots: readonly SlotPlan[]
  readonly machines: number
  readonly customers: readonly Customer[]
  readonly requests: readonly RequestPlan[]
  readonly topUps: readonly { readonly atMs: number; readonly customer: Customer; readonly amountNanos: bigint }[]
  readonly refunds: readonly RefundPlan[]
  readonly troubles: readonly TroublePlan[]
  readonly config: GatewayConfig
  readonly faults: FaultPlan
}

/** A refund of an earlier request, ordered by an operator. */
export interface RefundPlan {
  readonly atMs: number
  /** Picks one of the requests so far, 0..1. */
  readonly which: number
  /** In thousandths of the charge; null for the full charge. */
  readonly share: number | null
  /** A second order for the same request, perhaps with another share. */
  readonly again: { readonly afterMs: number; readonly share: number | null } | null
}

/** The Idempotency-Key of a request, and the body sent with it. */
export interface IdempotencyPlan {
  readonly key: string
  readonly body: string
}

/** A place where a gateway process runs. */
export interface SlotPlan {
  readonly machine: number
  readonly driftPpm: number
}

export interface RequestPlan {
  readonly atMs: number
  readonly admission: Admission
  readonly customer: Customer
  readonly slot: number
  readonly runsMs: number
  readonly pricing: Pricing
  readonly idempotency: IdempotencyPlan | null
  /** When the client hangs up: after a time, or `midway`, as soon as its stream has begun. */
  readonly leaves: 'midway' | { readonly afterMs: number } | null
}

export interface FaultPlan {
  readonly count: number
  readonly lossRate: number
  readonly duplicateRate: number
  readonly delayRate: number
  readonly delayMaxMs: number
  readonly diskFaultRate: number
  readonly slowMs: number
  /** Whether the database clock may be stepped. The limits of minutes and days do not hold across a step. */
  readonly stepsDatabaseClock: boolean
  /** Whether a standby may take over that lacks the last transactions. */
  readonly losesTransactions: boolean
}

export function planOf(random: Random): Plan {
  // Some runs continue until the leases of a dead node are reclaimed; its charges are late then.
  const loadMs = random.chance(0.1) ? random.between(90_000, 240_000) : random.skewed(3_000, 90_000)
  const machines = random.pick([1, 2, 2, 2, 3, 3, 4, 5])
  const slots: SlotPlan[] = []
  for (let machine = 0; machine < machines; machine++) {
    const count = machines === 1 ? random.between(2, 4) : random.pick([1, 1, 1, 2])
    const driftPpm = random.pick([0, -500, 500, random.between(-500, 500)])
    for (let slot = 0; slot < count; slot++) slots.push({ machine, driftPpm })
  }
  const customers = planCustomers(random)
  const isCalm = random.chance(0.15)
  const endpoints = random.between(1, 5)
  const requests = planRequests(random, customers, slots.length, loadMs, endpoints)
  const epochMs = planEpoch(random, loadMs)
  return {
    epochMs,
    loadMs,
    slots,
    machines,
    customers,
    requests: requests.map(request => ({ ...request, pricing: withWindows(request.pricing, epochMs) })),
    topUps: planTopUps(random, customers, loadMs),
    refunds: planRefunds(random, loadMs),
    troubles: planTroubles(random, customers[0]!, endpoints, loadMs),
    config: {
      settlement: random.chance(0.8) ? 'journal' : 'commit',
      fsync: random.chance(0.3),
      segmentBytes: random.pick([2_000, 20_000, 4 << 20]),
      maxBytes: random.chance(0.1) ? random.between(4_000, 30_000) : 256 << 20,
      // In some runs the journal can fill its own disk, and nothing but a replay makes room again.
      diskBytes: random.chance(0.1) ? random.between(8_000, 30_000) : 1 << 30,
    },
    faults: isCalm
      ? {
          count: 0,
          lossRate: 0,
          duplicateRate: 0,
          delayRate: 0,
          delayMaxMs: 1,
          diskFaultRate: 0,
          slowMs: 0,
          stepsDatabaseClock: false,
          losesTransactions: false,
        }
      : {
          count: random.between(1, 12),
          lossRate: random.pick([0, 0, 0.01, 0.05]),
          duplicateRate: random.pick([0, 0, 0.01, 0.1]),
          delayRate: random.pick([0, 0, 0.02, 0.2]),
          delayMaxMs: random.skewed(20, 20_000),
          diskFaultRate: random.pick([0, 0, 0, 0.02, 0.2]),
          slowMs: random.pick([0, 0, 0, 50, 2_000]),
          stepsDatabaseClock: random.chance(0.25),
          losesTransactions: random.chance(0.2),
        },
  }
}

/** The start of the run, chosen so that a minute ends during most runs and a day during some. */
function planEpoch(random: Random, loadMs: number): number {
  const midnight = Date.UTC(2026, 10, 21)
  if (random.chance(0.15)) return midnight - Math.floor(random.next() * loadMs)
  return midnight + random.between(1, 1_400) * 60_000 - Math.floor(random.next() * Math.max(loadMs, 60_000))
}

function planCustomers(random: Random): Customer[] {
  const count = Math.round(random.skewed(1, random.chance(0.1) ? 50 : 8))
  return Array.from({ length: count }, (_, index) => ({
    customerId: idOf('customer', index),
    creditNanos: planCredit(random),
    limits: {
      requestsPerMinute: random.chance(0.5) ? 1_000_000 : random.between(1, random.pick([5, 50, 400])),
      requestsPerDay: random.chance(0.7) ? 1_000_000 : random.between(1, random.pick([10, 100, 800])),
      dailySpendCapNanos: random.chance(0.6) ? 1_000n * USD : BigInt(Math.round(random.skewed(1e7, 2e10))),
    },
  }))
}

function planCredit(random: Random): bigint {
  // Enough for bulk leases, near their minimum, or the last cents.
  const usd = random.pick([
    random.skewed(2, 100),
    random.skewed(2, 100),
    random.skewed(0.9, 4),
    random.skewed(0.001, 1),
  ])
  return BigInt(Math.round(usd * 1e9))
}

function planRequests(
  random: Random,
  customers: readonly Customer[],
  slots: number,
  loadMs: number,
  endpoints: number,
): RequestPlan[] {
  const count = Math.round(
    random.chance(0.97) ? random.skewed(40, 400) : random.skewed(400, random.chance(0.1) ? 5_000 : 1_500),
  )
  const bursts = Array.from({ length: random.between(1, 6) }, () => ({
    atMs: random.next() * loadMs,
    widthMs: random.skewed(1, 5_000),
  }))
  const isBursty = random.next()
  // The first customers send the most requests: bulk leases are only granted to frequent customers.
  const skew = random.pick([1, 2, 4])
  const habits = customers.map((_, index) => ({
    keys: planKeys(random, index),
    scale: random.skewed(1e5, 5e7),
    slot: random.between(0, slots - 1),
    staysRate: random.pick([1, 0.9, 0.5, 0]),
    // Rarely a request needs most of the credit at once, while leases of other requests hold it.
    largeRate: random.pick([0, 0, 0, 0.1]),
  }))
  // In some runs, clients send Idempotency-Keys and repeat some of their requests.
  const keyedRate = random.pick([0, 0, 0.2, 0.5])
  const repeatedRate = random.pick([0.2, 0.5])
  const keyedRequests: RequestPlan[] = []
  const requests: RequestPlan[] = []
  for (let index = 0; index < count; index++) {
    const which = Math.floor(random.next() ** skew * customers.length)
    const customer = customers[which]!
    const habit = habits[which]!
    const burst = random.pick(bursts)
    const modelId = random.pick(MODELS)
    const slot = random.chance(habit.staysRate) ? habit.slot : random.between(0, slots - 1)
    if (keyedRequests.length > 0 && random.chance(keyedRate * repeatedRate)) {
      requests.push(planRepetition(random, random.pick(keyedRequests), idOf('request', index), slot))
      continue
    }
    const isLarge = random.chance(habit.largeRate)
    const aboutNanos = isLarge
      ? Number(customer.creditNanos) * (0.5 + random.next() * 0.5)
      : habit.scale * random.skewed(0.3, 3)
    const pricing = planPricing(random, modelId, aboutNanos, planEndpoints(random, endpoints))
    const { wantNanos, floorNanos } = pricing.hold
    const idempotency = random.chance(keyedRate) ? { key: `key ${index}`, body: `body ${index}` } : null
    const request: RequestPlan = {
      atMs: random.chance(isBursty) ? burst.atMs + random.next() * burst.widthMs : random.next() * loadMs,
      customer,
      slot,
      runsMs: random.chance(isLarge ? 0.5 : 0.03) ? random.skewed(1_000, 60_000) : random.skewed(1, 3_000),
      pricing,
      admission: {
        requestId: idOf('request', index),
        customerId: customer.customerId,
        modelId,
        limits: customer.limits,
        ...random.pick(habit.keys),
        memberLimit: null,
        ask: idempotency === null && random.chance(0.04) ? null : { wantNanos, floorNanos },
      },
      idempotency,
      leaves: random.chance(0.02)
        ? { afterMs: random.skewed(1, 3_000) }
        : random.chance(idempotency === null ? 0.03 : 0.2)
          ? 'midway'
          : null,
    }
    requests.push(request)
    if (idempotency !== null) keyedRequests.push(request)
  }
  return requests
}

/** A client without an answer sends its request again: at once or much later, and sometimes with another body. */
function planRepetition(random: Random, request: RequestPlan, requestId: string, slot: number): RequestPlan {
  return {
    ...request,
    atMs: request.atMs + random.skewed(1, random.pick([3_000, 100_000])),
    slot,
    admission: { ...request.admission, requestId },
    idempotency: random.chance(0.05)
      ? { ...request.idempotency!, body: `${request.idempotency!.body}, changed` }
      : request.idempotency,
    leaves: null,
  }
}

function planEndpoints(random: Random, count: number): number[] {
  const first = random.between(0, count - 1)
  const used = Math.min(random.pick([1, 1, 2, 3, 5]), count)
  return Array.from({ length: used }, (_, index) => (first + index) % count)
}

function planTroubles(random: Random, customer: Customer, endpoints: number, loadMs: number): TroublePlan[] {
  return Array.from({ length: random.pick([0, 0, 0, 1, 2, 5]) }, (_, index) => {
    const fromMs = random.next() * loadMs
    const endpointId = random.chance(0.15) ? null : endpointIdOf(random.between(0, endpoints - 1))
    return {
      endpointId,
      customerId: endpointId === null && index % 2 === 0 ? customer.customerId : null,
      fromMs,
      untilMs: fromMs + random.skewed(1_000, 60_000),
      kind: random.pick(troubleKinds),
      rate: random.pick([1, 1, 0.5, 0.6]),
    }
  })
}

function planRefunds(random: Random, loadMs: number): RefundPlan[] {
  const shareOf = () => random.pick([null, null, 1_000, 1_001, random.between(1, 1_000)])
  return Array.from({ length: random.pick([0, 0, 1, 4, 12]) }, () => {
    const share = shareOf()
    return {
      atMs: random.skewed(0.1, 1) * loadMs,
      which: random.next(),
      share,
      again: random.chance(0.4)
        ? { afterMs: random.skewed(1, 10_000), share: random.chance(0.5) ? share : shareOf() }
        : null,
    }
  })
}

/** The keys of one customer. Most share the limits of the customer; some have a spend limit. */
function planKeys(random: Random, customer: number): Pick<Admission, 'keyId' | 'keyLimit'>[] {
  const free = { keyId: idOf('key', 2 * customer), keyLimit: null }
  if (random.chance(0.7)) return [free]
  const keyLimit = {
    limitNanos: BigInt(Math.round(random.skewed(1e6, 5e9))),
    reset: random.pick(['none', 'none', 'daily', 'weekly', 'monthly'] as const),
  }
  const limited = { keyId: idOf('key', 2 * customer + 1), keyLimit }
  return random.chance(0.5) ? [limited] : [free, limited]
}

function planTopUps(random: Random, customers: readonly Customer[], loadMs: number): Plan['topUps'] {
  return Array.from({ length: random.pick([0, 0, 1, 3]) }, () => ({
    atMs: random.next() * loadMs,
    customer: random.pick(customers),
    amountNanos: planCredit(random),
  }))
}

const USD = 1_000_000_000n
export const MODELS = ['small', 'large'] as const
