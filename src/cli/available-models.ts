import type { Config } from '../config/config.ts'
import type { Sql } from '../db/pool.ts'
import { DEMO_MODEL } from '../domain/offer.ts'
import { gatherOffers } from '../start/gather-offers.ts'
import { listHosters } from '../supply/hosters/hosters.ts'
import { withRunningPort } from './with-running-port.ts'

/** Returns the ids of the models that the gateway would offer now, sorted. */
export async function availableModels(config: Config, sql: Sql): Promise<string[]> {
  const [gathered, hosters] = await Promise.all([
    // The demo takes long to load.
    gatherOffers({ ...withRunningPort(config), demo: { ...config.demo, enabled: false } }),
    listHosters(sql),
  ])
  await gathered.close()
  const hosted = hosters.filter(({ state }) => state === 'active').flatMap(({ models }) => models)
  const ids = [...gathered.offers, ...hosted].map(({ modelId }) => modelId)
  return [...new Set([...ids, ...(config.demo.enabled ? [DEMO_MODEL] : [])])].sort()
}
