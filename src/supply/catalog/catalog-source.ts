import type { Sql } from '../../db/pool.ts'
import type { Offer } from '../../domain/offer.ts'
import type { Clock } from '../../runtime/clock.ts'
import { readHosterOffers } from '../hosters/hoster-offers.ts'
import { buildCatalog, type Catalog } from './catalog.ts'

export interface CatalogSource {
  /** Returns the current catalog. Call it once per request. */
  current(): Catalog
  /** Reads the hosters again. A call during a running read starts another read after it, so the new catalog is never older than the call. */
  refresh(): Promise<void>
}

export interface CatalogSourceOptions {
  /** Local and cloud offers: configured, detected, and the demo. */
  readonly configured: readonly Offer[]
  readonly sql: Sql
  readonly masterKey: Buffer
  /** Permits hosters on private addresses. */
  readonly allowPrivateHosters: boolean
  readonly clock: Clock
  /** Called for a hoster that cannot be offered, for example because its key does not open. The others are offered. */
  readonly onProblem: (message: string) => void
}

/**
 * Creates the source of the catalog. It has the configured offers at once and hosters after the first `refresh`. Call `refresh` when control topic `supply`
 * changes. Throws when two configured offers have the same id.
 */
export function createCatalogSource(options: CatalogSourceOptions): CatalogSource {
  const { configured, sql, masterKey, allowPrivateHosters, clock, onProblem } = options
  const startedAt = Math.floor(clock.epochMs() / 1000)
  let catalog = buildCatalog(configured, () => startedAt)
  let running: Promise<void> | undefined
  let queued: Promise<void> | undefined

  const read = async () => {
    const hosters = await readHosterOffers(sql, { masterKey, allowPrivateHosters, onProblem })
    catalog = buildCatalog([...configured, ...hosters.offers], id => hosters.offeredSince.get(id) ?? startedAt)
  }
  const start = () => {
    running = read().finally(() => {
      running = undefined
    })
    return running
  }
  return {
    current: () => catalog,
    refresh() {
      if (!running) return start()
      queued ??= running
        .catch(() => {})
        .then(() => {
          queued = undefined
          return start()
        })
      return queued
    },
  }
}
