import { createLearnedExchange } from '../../market/supply/learned/learned-exchange.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'

/** Takes in what other nodes and earlier ones have learned of the servers, then shares it every few seconds. */
export async function startLearned(
  { scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { node }: Money,
  { health }: Supply,
): Promise<void> {
  const learned = createLearnedExchange({
    pool: general,
    nodeId: () => node.nodeId,
    health: health.shared,
    scheduler,
    log,
    ...(timeouts.learnedIntervalMs !== undefined && { everyMs: timeouts.learnedIntervalMs }),
  })
  await learned.exchange()
  learned.start()
  started.defer(() => learned.stop())
}
