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

/**
 * 500 requests at once over three nodes: on the last dollar, on the last dollar of a day's cap, on the last hundred of a minute. Each holds
 * a cent, and costs it or, with `partly`, some of it. Returns what went wrong.
 */
export async function lastDollar(
  world: LedgerWorld,
  nodes: readonly TestNode[],
  { partly }: { partly: boolean },
): Promise<string[]> {
  const problems = await Promise.all([
    onTheLastDollar(world, nodes, partly),
    onTheLastDollarOfTheDay(world, nodes),
    onTheLastOfTheMinute(world, nodes),
  ])
  return problems.flat()
}

async function onTheLastDollar(world: LedgerWorld, nodes: readonly TestNode[], partly: boolean): Promise<string[]> {
  const customerId = await world.addCustomer(USD)
  const { served, paid } = await storm(nodes, customerId, i => (partly ? 1n + (CENT * BigInt(i % 100)) / 100n : CENT))
  const { postedNanos, leasedNanos } = (await readBalance(world.pool, customerId))!
  return [
    ...(paid > USD ? [`${paid} was served for 1 USD`] : []),
    ...(partly || served === PAID_FOR ? [] : [`${served} were served for the money of ${PAID_FOR}`]),
    ...(postedNanos === USD - paid && leasedNanos === 0n
      ? []
      : [`${postedNanos} and ${leasedNanos} held are left of 1 USD less ${paid}`]),
  ]
}

async function onTheLastDollarOfTheDay(world: LedgerWorld, nodes: readonly TestNode[]): Promise<string[]> {
  const customerId = await world.addCustomer(20n * USD)
  await openWindowsAhead(world.pool, customerId)
  const { served } = await storm(nodes, customerId, () => CENT, { dailySpendCapNanos: USD })
  return served === PAID_FOR ? [] : [`${served} were served under a cap for ${PAID_FOR}`]
}

async function onTheLastOfTheMinute(world: LedgerWorld, nodes: readonly TestNode[]): Promise<string[]> {
  const customerId = await world.addCustomer(20n * USD)
  await openWindowsAhead(world.pool, customerId)
  const { served } = await storm(nodes, customerId, () => CENT, { requestsPerMinute: PAID_FOR })
  return served === PAID_FOR ? [] : [`${served} were served in a minute for ${PAID_FOR}`]
}

async function storm(
  nodes: readonly TestNode[],
  customerId: string,
  costOf: (i: number) => bigint,
  limits: Partial<typeof unlimited> = {},
): Promise<{ served: number; paid: bigint }> {
  const costs = await Promise.all(
    Array.from({ length: REQUESTS }, async (_, i) => {
      const { ledger } = nodes[i % nodes.length]!
      const admission = admissionOf(customerId, CENT, { limits: { ...unlimited, ...limits } })
      if ((await ledger.admit(admission)).kind !== 'granted') return 0n
      const cost = costOf(i)
      await ledger.settle(settlementOf(admission, CENT, cost))
      return cost
    }),
  )
  return { served: costs.filter(cost => cost > 0n).length, paid: costs.reduce((sum, cost) => sum + cost, 0n) }
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

/** `lastDollar` so many times, on three ledgers over three pools, as three processes would have. */
export function lastDollarRepeated(repetitions: number): Scenario {
  return {
    name: `last dollar x ${repetitions}, three ledgers`,
    alone: true,
    async run({ pool, postgres }) {
      const ledgers = await createLedgerWorld({ pool, connection: postgres.connection, drop: async () => {} })
      const nodes = await Promise.all([ledgers.addNode(), ledgers.addNode(), ledgers.addNode()])
      const problems: string[] = []
      for (let repetition = 0; repetition < repetitions; repetition++) {
        problems.push(...(await lastDollar(ledgers, nodes, { partly: repetition % 2 === 1 })))
      }
      problems.push(...(await ledgers.violations()).map(({ name, violations }) => `audit: ${name} ${violations} times`))
      await ledgers.drop()
      const requests = repetitions * 3 * REQUESTS
      const verdict = { convergedMs: 0, problems: [], requests, window: 0, free: 0 }
      return { customers: [], problems, note: 'exact each time', settled: async () => verdict }
    },
  }
}
