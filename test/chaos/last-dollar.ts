import { ApiError } from '../../src/domain/errors.ts'
import { readBalance } from '../../src/ledger/accounts/read-balance.ts'
import {
  admissionOf,
  createLedgerWorld,
  type LedgerWorld,
  settlementOf,
  type TestNode,
  unlimited,
} from '../ledger/ledger-world.ts'
import { openWindowsAhead } from './customer.ts'
import { eventually } from './eventually.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n
const CENT = USD / 100n
const REQUESTS = 500
const PAID_FOR = 100
/** `openWindowsAhead` opens a minute that lasts this long at least. */
const MINUTE_MS = 60_000

/** What requests use of what they hold, all at once by leases of their own; or all of it, in waves that begin with bulk leases. */
export type Storm = 'all' | 'a part' | 'all, bulk leases first'
export const storms: readonly Storm[] = ['all', 'a part', 'all, bulk leases first']

/** How many requests are paid for. Bulk leases need money to spare: so these are more, and the last of them are admitted one by one. */
function paidFor(costs: Storm): number {
  return costs === 'all, bulk leases first' ? 400 : PAID_FOR
}

/** What came of some repetitions. */
export interface LastDollars {
  /** What went wrong; none when all is well. */
  readonly problems: string[]
  /** Repetitions in which PostgreSQL was too slow for some request (`database_unavailable`), or which outlived their minute: judged, and done again. */
  readonly undecided: number
}

/**
 * 500 requests over three nodes on a balance, under a daily cap, and in a minute that pay for fewer, again and again. Each holds a cent.
 * A request that is turned away with `database_unavailable` is no overdraft, but it leaves fewer to compete for the last dollar. So a
 * repetition with such a request must not exceed anything either, and another takes its place, until `repetitions` were decided.
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
  // What a request held that was turned away comes free when the others have been refused.
  const isTooFew = ({ served, turnedAway }: Weathered) => turnedAway === 0 && served !== most
  const problems = [
    ...(balance.paid > nanos || (costs === 'all' && isTooFew(balance)) ? [`balance: ${told(balance)}`] : []),
    ...(cap.paid > nanos || (costs === 'all' && isTooFew(cap)) ? [`cap: ${told(cap)}`] : []),
    ...(isWithinMinute && (minute.served > most || (!isBulk && isTooFew(minute))) ? [`minute: ${told(minute)}`] : []),
    ...(isBulk && all.some(({ byBulk, turnedAway }) => turnedAway === 0 && byBulk === 0)
      ? ['no bulk lease admitted anything']
      : []),
    ...all.flatMap(({ problems }) => problems),
  ]
  return { problems, isDecided: isWithinMinute && all.every(({ turnedAway }) => turnedAway === 0) }
}

interface Weathered {
  readonly served: number
  readonly byBulk: number
  /** By `database_unavailable`. */
  readonly turnedAway: number
  readonly paid: bigint
  readonly problems: readonly string[]
}

function told({ served, paid, byBulk, turnedAway }: Weathered): string {
  return `${served} were served for ${paid}, ${byBulk} of them by bulk leases; ${turnedAway} were turned away`
}

async function storm(
  world: LedgerWorld,
  nodes: readonly TestNode[],
  costs: Storm,
  creditNanos: bigint,
  limits: Partial<typeof unlimited> = {},
): Promise<Weathered> {
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
  // A customer has a bulk lease only after a few requests.
  const wave = costs === 'all, bulk leases first' ? 25 : REQUESTS
  for (let first = 0; first < REQUESTS; first += wave) {
    await Promise.all(Array.from({ length: wave }, (_, i) => send(first + i)))
  }
  await Promise.all(nodes.map(({ ledger }) => ledger.drain(10_000)))
  const spent = paid.reduce((sum, cost) => sum + cost, 0n)
  const problems: string[] = []
  // What was held for a request that was turned away is looked for and given back within seconds.
  await eventually(`nothing of ${customerId} is held`, async () => {
    const { postedNanos, leasedNanos } = (await readBalance(world.pool, customerId))!
    if (leasedNanos !== 0n) return false
    if (postedNanos !== creditNanos - spent) problems.push(`${postedNanos} are left of ${creditNanos} less ${spent}`)
    return true
  })
  return { served: paid.length, byBulk, turnedAway, paid: spent, problems }
}

function nullIfUnavailable(error: unknown): null {
  if (error instanceof ApiError && error.code === 'database_unavailable') return null
  throw error
}

/** Three ledgers over three pools that send heartbeats, as three processes would have; with bulk leases or without. */
export function threeNodes(world: LedgerWorld, costs: Storm): Promise<TestNode[]> {
  const bulkLeases = costs === 'all, bulk leases first'
  // Longer than any load delays a commit: a charge that is given up is a free request, which is not the matter here.
  return Promise.all([0, 1, 2].map(() => world.addLivingNode({ bulkLeases, commitWaitMs: 60_000 })))
}

/** The same with real gateways: 500 requests at once over three of them, for 1 USD, under a cap of 1 USD, in a minute for 100. */
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
        const ask = { model: 'penny', words: 2 } as const
        const sent = await Promise.all(
          Array.from({ length: REQUESTS }, (_, i) => sendChat(nodes[i % 3]!, customer, ask)),
        )
        const served = sent.filter(({ ending }) => ending === 'whole').length
        const sentOn = world.modelServer.tagsOf(customer.customerId).size
        if (served > PAID_FOR || sentOn > PAID_FOR)
          problems.push(`${served} of ${sentOn} were served, ${PAID_FOR} are paid for`)
        counts.push(served)
      }
      return {
        customers,
        problems,
        note: `${counts.join(', ')} of ${REQUESTS} served`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

/** `lastDollar` so many times, by turns with each of its costs. */
export function lastDollarRepeated(repetitions: number): Scenario {
  return {
    name: `last dollar x ${repetitions}, three ledgers`,
    alone: true,
    async run({ pool, postgres }) {
      const problems: string[] = []
      let undecided = 0
      for (const [turn, costs] of storms.entries()) {
        const ledgers = await createLedgerWorld({ pool, connection: postgres.connection, drop: async () => {} })
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
      const verdict = { convergedMs: 0, problems: [], requests, window: 0, free: 0 }
      const note = `not one too many${undecided > 0 ? `; ${undecided} repeated, since PostgreSQL was too slow` : ''}`
      return { customers: [], problems, note, settled: async () => verdict }
    },
  }
}
