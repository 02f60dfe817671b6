import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import type { ChaosCustomer, Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad } from './load.ts'
import { sendRequest } from './send-request.ts'
import type { GatewayWorld } from './world.ts'

/** Two gateways under load, for faults that both must survive. */
export interface TwoLoadedNodes {
  readonly nodes: readonly GatewayProcess[]
  readonly customers: readonly ChaosCustomer[]
  /** Waits until both gateways answer completely again. Resolves with the milliseconds that the slower one took. */
  untilServing(): Promise<number>
  /** Ends the load and waits for its requests. */
  stop(): Promise<Sent[]>
}

/**
 * Starts gateways `a` and `b`, and six clients that send them up to `requestsMax` requests. `gapMs` is the time between
 * the words of an answer.
 */
export async function loadTwoNodes(
  world: GatewayWorld,
  {
    requestsMax,
    seed,
    secondNanos,
    gapMs,
  }: { requestsMax: number; seed: number; secondNanos?: bigint; gapMs?: number },
): Promise<TwoLoadedNodes> {
  const nodes = await Promise.all(['a', 'b'].map(name => world.running(name)))
  const customers = await world.openTwoCustomers(secondNanos)
  const enough = new AbortController()
  const load = runLoad({
    nodes: () => nodes,
    customers,
    workers: 6,
    requestsMax,
    random: seededRandom(seed),
    signal: enough.signal,
    ...(gapMs !== undefined && { gapMs }),
  })
  return {
    nodes,
    customers,
    async untilServing() {
      const serving = nodes.map(node =>
        eventually(
          `${node.name} serves again`,
          async () => (await sendRequest(node, customers[0]!)).ending === 'complete',
        ),
      )
      return Math.max(...(await Promise.all(serving)))
    },
    stop() {
      enough.abort()
      return load
    },
  }
}
