import type { Sql } from '../base/db/pool.ts'
import { DEMO_MODEL } from '../base/domain/offer.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { listHosters } from '../market/supply/hosters/hosters.ts'
import type { Config } from '../start/config/config.ts'
import type { Session } from './command.ts'
import { withRunningPort } from './with-running-port.ts'

/**
 * Returns a warning when a key may use models that no server offers now: usually they are misspelled. Returns undefined
 * otherwise.
 *
 * @param allowed null for all models
 */
export async function unknownModelsNote(
  { config }: Session,
  sql: Sql,
  allowed: readonly string[] | null,
): Promise<string | undefined> {
  if (allowed === null) return undefined
  const available = await availableModels(config, sql)
  const unknown = allowed.filter(id => !available.has(id))
  if (unknown.length === 0) return undefined
  return `Warning: no server offers ${unknown.join(', ')} now. List the models with: ${ownCommand('model list')}`
}

async function availableModels(config: Config, sql: Sql): Promise<ReadonlySet<string>> {
  // Imported on demand, because few commands need it.
  const { gatherOffers } = await import('../start/gather-offers.ts')
  const [gathered, hosters] = await Promise.all([
    // The demo takes long to load, and its model is known.
    gatherOffers({ ...withRunningPort(config), demo: { ...config.demo, enabled: false } }),
    listHosters(sql),
  ])
  await gathered.close()
  const hosted = hosters.filter(({ state }) => state === 'active').flatMap(({ models }) => models)
  const ids = [...gathered.offers, ...hosted].map(({ modelId }) => modelId)
  return new Set([...ids, ...(config.demo.enabled ? [DEMO_MODEL] : [])])
}
