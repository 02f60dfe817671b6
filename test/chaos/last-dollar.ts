import { ApiError } from '../../src/base/domain/errors.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import {
  admissionOf,
  createLedgerWorld,
  type LedgerWorld,
  settlementOf,
  type TestNode,
  unlimited,
} from '../ledger/ledger-world.ts'
import { openWindowsAhead, USD } from './customer.ts'
import { eventually } from './eventually.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'

const CENT = USD / 100n
const REQUESTS = 500
const PAID_FOR = 100
/** The minute that `openWindowsAhead` opens lasts at least this long. */
const MINUTE_MS = 60_000

/**
 * How much of its hold each request uses. With `all` and `a part`, all requests run at once with strict leases. With `all, bulk leases first`,
 * they come in waves that begin with bulk leases.
 */
export type Storm = 'all' | 'a part' | 'all, bulk leases first'
export const storms: readonly Storm[] = ['all', 'a part', 'all, bulk leases first']

/** Number of requests that the credit pays for. Bulk leases need more credit; the last requests are then admitted with strict leases. */
function paidFor(costs: Storm): number {
  return costs === 'all, bulk leases first' ? 400 : PAID_FOR
}

/** The result of some repetitions. */
export interface LastDollars {
  /** Descriptions of problems; empty when all is well. */
  readonly problems: string[]
  /** Repetitions in which PostgreSQL was too slow for some request (`database_unavailable`) or which exceeded their minute. They are checked and repeated. */
  readonly undecided: number
}

/**
 * Sends 500 requests over three nodes, limited by a balance, by a daily cap and by a minute limit that allow fewer. Each request holds a cent.
 * Requests refused with `database_unavailable` leave fewer to compete for the last dollar. A repetition with such a request must not exceed a
 * limit either, but it does not count: the function repeats until `repetitions` were decided.
 */
export async function lastDollars(
  world: LedgerWorld,
  nodes: readonly TestNode[],
  costs: Storm,
  repetitions: number,
): Promise<LastDollars> {
  const problems: string[] = []
  let undecided = 0
  let decided = 0
  while (decided < repetitions) {
    if (undecided > repetitions) {
      problems.push(
        `PostgreSQL was too slow in ${undecided} repetitions; only ${decided} of ${repetitions} were decided`,
      )
      break
    }
    const found = await lastDollar(world, nodes, costs)
    problems.push(...found.problems)
    if (found.isDecided) decided++
    else undecided++
  }
  return { problems, undecided }
}

async function lastDollar(
  world: LedgerWorld,
  nodes: readonly TestNode[],
  costs: Storm,
): Promise<{ problems: string[]; isDecided: boolean }> {
  const most = paidFor(costs)
  const nanos = CENT * BigInt(most)
  const startedMs = performance.now()
  const [balance, cap, minute] = await Promise.all([
    storm(world, nodes, costs, nanos),
    storm(world, nodes, costs, 5n * nanos, { dailySpendCapNanos: nanos }),
    storm(world, nodes, costs, 5n * nanos, { requestsPerMinute: most }),
  ])
  const all = [balance, cap, minute]
  const isWithinMinute = performance.now() - startedMs < MINUTE_MS
  const isBulk = costs === 'all, bulk leases first'
  // The hold of an unavailable request is released only after the other requests were refused.
  const isTooFew = ({ served, turnedAway }: StormResult) => turnedAway === 0 && served !== most
  const problems = [
    ...(balance.paid > nanos || (costs === 'all' && isTooFew(balance)) ? [`balance: ${describe(balance)}`] : []),
    ...(cap.paid > nanos || (costs === 'all' && isTooFew(cap)) ? [`cap: ${describe(cap)}`] : []),
    ...(isWithinMinute && (minute.served > most || (!isBulk && isTooFew(minute)))
      ? [`minute: ${describe(minute)}`]
      : []),
    ...(isBulk && all.some(({ byBulk, turnedAway }) => turnedAway === 0 && byBulk === 0)
      ? ['no bulk lease admitted anything']
      : []),
    ...all.flatMap(({ problems }) => problems),
  ]
  return { problems, isDecided: isWithinMinute && all.every(({ turnedAway }) => turnedAway === 0) }
}

interface StormResult {
  readonly served: number
  readonly byBulk: number
  /** Requests refused with `database_unavailable`. */
  readonly turnedAway: number
  readonly paid: bigint
  readonly problems: readonly string[]
}

function describe({ served, paid, byBulk, turnedAway }: StormResult): string {
  return `${served} served for ${paid}, ${byBulk} of them with bulk leases; ${turnedAway} unavailable`
}

async function storm(
  world: LedgerWorld,
  nodes: readonly TestNode[],
  costs: Storm,
  creditNanos: bigint,
  limits: Partial<typeof unlimited> = {},
): Promise<StormResult> {
  const customerId = await world.addCustomer(creditNanos)
  await openWindowsAhead(world.pool, customerId)
  const paid: bigint[] = []
  let byBulk = 0
  let turnedAway = 0
  const send = async (i: number) => {
    const { ledger } = nodes[i % nodes.length]!
    const admission = admissionOf(customerId, CENT, { limits: { ...unlimited, ...limits } })
    const result = await ledger.admit(admission).catch(nullIfUnavailable)
    if (result === null) turnedAway++
    if (result?.kind !== 'granted') return
    const { hold } = result
    if (hold.leaseId !== admission.requestId) byBulk++
    const cost = costs === 'a part' ? 1n + (CENT * BigInt(i % 100)) / 100n : CENT
    await ledger.settle(settlementOf(admission, CENT, cost, { leaseId: hold.leaseId }), hold)
    paid.push(cost)
  }
  // A customer obtains a bulk lease only after a few requests.
  const wave = costs === 'all, bulk leases first' ? 25 : REQUESTS
  for (let first = 0; first < REQUESTS; first += wave) {
    await Promise.all(Array.from({ length: wave }, (_, i) => send(first + i)))
  }
  await Promise.all(nodes.map(({ ledger }) => ledger.drain(10_000)))
  const spent = paid.reduce((sum, cost) => sum + cost, 0n)
  const problems: string[] = []
  // Holds of unavailable requests are found and released within seconds.
  await eventually(`no money of ${customerId} is held`, async () => {
    const { postedNanos, leasedNanos } = (await readBalance(world.pool, customerId))!
    if (leasedNanos !== 0n) return false
    if (postedNanos !== creditNanos - spent)
      problems.push(`balance ${postedNanos}, not credit ${creditNanos} minus charges ${spent}`)
    return true
  })
  return { served: paid.length, byBulk, turnedAway, paid: spent, problems }
}

function nullIfUnavailable(error: unknown): null {
  if (error instanceof ApiError && error.code === 'database_unavailable') return null
  throw error
}

/** Three ledgers with separate pools and heartbeats, as in three processes. */
export function threeNodes(world: LedgerWorld, costs: Storm): Promise<TestNode[]> {
  const bulkLeases = costs === 'all, bulk leases first'
  // Longer than any delay of a commit, since an abandoned charge would be a free request.
  return Promise.all([0, 1, 2].map(() => world.addLivingNode({ bulkLeases, commitWaitMs: 60_000 })))
}

/** 500 concurrent requests over three real gateways, limited by a balance of 1 USD, by a cap of 1 USD, and by 100 requests per minute. */
export function lastDollarOverProcesses(): Scenario {
  return {
    name: 'last dollar, three processes',
    async run(world) {
      const nodes = await Promise.all(['a', 'b', 'c'].map(name => world.running(name)))
      const customers = [
        await world.openCustomer(USD),
        await world.openCustomer(20n * USD, { dailySpendCapNanos: USD }),
        await world.openCustomer(20n * USD, { requestsPerMinute: PAID_FOR }),
      ]
      const problems: string[] = []
      const counts: number[] = []
      for (const customer of customers) {
        const options = { path: { client: 'chat', model: 'penny' }, words: 2 } as const
        const sent = await Promise.all(
          Array.from({ length: REQUESTS }, (_, i) => sendRequest(nodes[i % 3]!, customer, options)),
        )
        const served = sent.filter(({ ending }) => ending === 'complete').length
        const sentOn = world.modelServer.tagsOf(customer.customerId).size
        if (served > PAID_FOR || sentOn > PAID_FOR)
          problems.push(`${served} answered, ${sentOn} sent to the model server, ${PAID_FOR} allowed`)
        counts.push(served)
      }
      return {
        customers,
        problems,
        note: `${counts.join(', ')} of ${REQUESTS} answered`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

/** Repeats `lastDollar`, evenly over its kinds of storms. */
export function lastDollarRepeated(repetitions: number): Scenario {
  return {
    name: `last dollar, ${repetitions} times, three ledgers`,
    alone: true,
    async run({ pool, postgres }) {
      const problems: string[] = []
      let undecided = 0
      for (const [turn, costs] of storms.entries()) {
        const ledgers = await createLedgerWorld({
          pool,
          connection: postgres.connection,
          gatewayConnection: postgres.connection,
          deskConnection: postgres.connection,
          drop: async () => {},
        })
        try {
          const nodes = await threeNodes(ledgers, costs)
          const found = await lastDollars(ledgers, nodes, costs, Math.ceil((repetitions - turn) / storms.length))
          problems.push(...found.problems.map(problem => `${costs}: ${problem}`))
          undecided += found.undecided
          problems.push(
            ...(await ledgers.violations()).map(({ name, violations }) => `audit: ${name} ${violations} times`),
          )
        } finally {
          await ledgers.drop()
        }
      }
      const requests = repetitions * 3 * REQUESTS
      const verdict = { convergedMs: 0, problems: [], requests, truncated: 0, free: 0 }
      const note = `no limit exceeded${undecided > 0 ? `; ${undecided} repeated because PostgreSQL was too slow` : ''}`
      return { customers: [], problems, note, settled: async () => verdict }
    },
  }
}
