import { type Allowed, checkBooks, converged } from './books.ts'
import type { ChaosCustomer } from './customer.ts'
import type { Verdict } from './scenario.ts'
import type { GatewayWorld } from './world.ts'

/** Waits until the books of these customers have converged, then checks them. `more` adds checks of the scenario. */
export async function verdictOn(
  world: GatewayWorld,
  customers: readonly ChaosCustomer[],
  allowed: Allowed = {},
  more: () => Promise<readonly string[]> = async () => [],
): Promise<Verdict> {
  const convergedMs = await converged(world, customers, allowed)
  const { problems, truncated, uncharged } = await checkBooks(world, customers, allowed)
  return {
    convergedMs,
    problems: [...problems, ...(await more())],
    requests: customers.reduce((sum, customer) => sum + customer.sent.length, 0),
    truncated: truncated.length,
    free: uncharged.length,
  }
}
