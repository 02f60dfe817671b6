import { readBalance } from '../../src/ledger/read-balance.ts'
import {
  admissionOf,
  createLedgerWorld,
  type LedgerWorld,
  settlementOf,
  type TestNode,
  unlimited,
} from '../ledger/ledger-world.ts'
import { openWindowsAhead } from './customer.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n
const CENT = USD / 100n
const REQUESTS = 500
const PAID_FOR = 100

/** What requests use of what they hold, all at once by leases of their own; or all of it, in waves that begin with bulk leases. */
export type Storm = 'all' | 'a part' | 'all, bulk leases first'
export const storms: readonly Storm[] = ['all', 'a part', 'all, bulk leases first']

/** How many requests are paid for. Bulk leases need money to spare: so these are more, and the last of them are admitted one by one. */
function paidFor(costs: Storm): number {
  return costs === 'all, bulk leases first' ? 400 : PAID_FOR
}

/**
 * 500 requests over three nodes on a balance, under a daily cap, and in a minute that pay for fewer. Each holds a cent. Returns what went
 * wrong.
 */
export async function lastDollar(world: LedgerWorld, nodes: readonly TestNode[], costs: Storm): Promise<string[]> {
  const most = paidFor(costs)
  const nanos = CENT * BigInt(most)
  const [balance, cap, minute] = await Promise.all([
    storm(world, nodes, costs, nanos),
    storm(world, nodes, costs, 5n * nanos, { dailySpendCapNanos: nanos }),
    storm(world, nodes, costs, 5n * nanos, { requestsPerMinute: most }),
  ])
  return [
    ...(balance.paid > nanos || (costs === 'all' && balance.served !== most) ? [`balance: ${told(balance)}`] : []),
    ...(cap.paid > nanos || (costs === 'all' && cap.served !== most) ? [`cap: ${told(cap)}`] : []),
    ...(minute.served > most || (costs !== 'all, bulk leases first' && minute.served !== most)
      ? [`minute: ${told(minute)}`]
      : []),
    ...(costs === 'all, bulk leases first' && [balance, cap, minute].some(({ byBulk }) => byBulk === 0)
      ? ['no bulk lease admitted anything']
      : []),
    ...[balance, cap, minute].flatMap(({ problems }) => problems),
  ]
}

interface Weathered {
  readonly served: number
  readonly byBulk: number
  readonly paid: bigint
  readonly problems: readonly string[]
}

function told({ served, paid, byBulk }: Weathered): string {
  return `${served} were served for ${paid}, ${byBulk} of them by bulk leases`
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
  const send = async (i: number) => {
    const { ledger } = nodes[i % nodes.length]!
    const admission = admissionOf(customerId, CENT, { limits: { ...unlimited, ...limits } })
    const result = await ledger.admit(admission)
    if (result.kind !== 'granted') return
    if (result.leaseId !== admission.requestId) byBulk++
    const cost = costs === 'a part' ? 1n + (CENT * BigInt(i % 100)) / 100n : CENT
    await ledger.settle(settlementOf(admission, CENT, cost, { leaseId: result.leaseId }))
    paid.push(cost)
  }
  // A customer has a bulk lease only after a few requests.
  const wave = costs === 'all, bulk leases first' ? 25 : REQUESTS
  for (let first = 0; first < REQUESTS; first += wave) {
    await Promise.all(Array.from({ length: wave }, (_, i) => send(first + i)))
  }
  await Promise.all(nodes.map(({ ledger }) => ledger.drain(10_000)))
  const spent = paid.reduce((sum, cost) => sum + cost, 0n)
  const { postedNanos, leasedNanos } = (await readBalance(world.pool, customerId))!
  const isRight = postedNanos === creditNanos - spent && leasedNanos === 0n
  const problems = isRight ? [] : [`${postedNanos} and ${leasedNanos} held are left of ${creditNanos} less ${spent}`]
  return { served: paid.length, byBulk, paid: spent, problems }
}

/** Three ledgers over three pools, as three processes would have; with bulk leases or without. */
export function threeNodes(world: LedgerWorld, costs: Storm): Promise<TestNode[]> {
  const bulkLeases = costs === 'all, bulk leases first'
  return Promise.all([0, 1, 2].map(() => world.addNode({ bulkLeases })))
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
      const ledgers = await createLedgerWorld({ pool, connection: postgres.connection, drop: async () => {} })
      const problems: string[] = []
      for (const costs of storms) {
        const nodes = await threeNodes(ledgers, costs)
        for (let repetition = storms.indexOf(costs); repetition < repetitions; repetition += storms.length) {
          problems.push(...(await lastDollar(ledgers, nodes, costs)).map(problem => `${costs}: ${problem}`))
        }
      }
      problems.push(...(await ledgers.violations()).map(({ name, violations }) => `audit: ${name} ${violations} times`))
      await ledgers.drop()
      const requests = repetitions * 3 * REQUESTS
      const verdict = { convergedMs: 0, problems: [], requests, window: 0, free: 0 }
      return { customers: [], problems, note: 'not one too many', settled: async () => verdict }
    },
  }
}
