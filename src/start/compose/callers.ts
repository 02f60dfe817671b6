import type { FastifyRequest } from 'fastify'
import { type ControlVersions, watchControlVersions } from '../../base/db/control-version.ts'
import type { FindPrices } from '../../base/domain/price-group.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { keyCreate, keyDelete, keyEdit, keyFind, keyRotate, keysList } from '../../http/endpoints/keys.ts'
import { playgroundKey } from '../../http/endpoints/playground-key.ts'
import { type Authenticator, createAuthenticator } from '../../identity/auth/authenticator.ts'
import { createKeyRing } from '../../identity/auth/key-ring.ts'
import { issuePlaygroundKey } from '../../identity/auth/playground-key.ts'
import { createPriceGroupReader } from '../../money/accounts/price-groups.ts'
import { readKeyUses } from '../../money/usage/key-use.ts'
import { reportSql } from '../../money/usage/report-sql.ts'
import { limitsOfTier } from '../config/config.ts'
import { clientTrace } from './client-trace.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Settings } from './settings.ts'
import type { Supply } from './supply.ts'

/** API keys, and the watch that notices changes to keys, customers, hosters, managed providers, prices and settings. */
export interface Callers {
  readonly authenticator: Authenticator
  readonly findPrices: FindPrices
  readonly changes: ControlVersions
  /**
   * Calls the listener after each read of the catalog that a change of hosters or prices has caused. If it fails, both
   * are repeated.
   */
  readonly onSupplyRead: (listener: () => Promise<void>) => void
  readonly endpoints: readonly Endpoint[]
}

/** Polls for changes once a second. A change of hosters, managed providers or prices refreshes the catalog of `supply`. */
export function startCallers(
  { config, clock, log, started }: ComposeContext,
  { lookups, general, desk }: Database,
  { catalog }: Supply,
  settings: Settings,
): Callers {
  const changes = watchControlVersions(lookups, {
    onError: error => log.warn({ err: error }, 'changes to keys or hosters could not be read; trying again'),
  })
  started.defer(() => changes.stop())
  const supplyListeners: (() => Promise<void>)[] = []
  changes.onChange('supply', async () => {
    await catalog.refresh()
    for (const listener of supplyListeners) await listener()
  })
  const findPrices = createPriceGroupReader(lookups)
  changes.onChange('settings', settings.refresh)
  const authenticator = createAuthenticator({
    sql: lookups,
    clock,
    limitsOf: tier => limitsOfTier(config, tier),
    findPrices,
    onAccessChange(listener) {
      const ends = [changes.onChange('access', listener), settings.onChange(listener)]
      return () => {
        for (const end of ends) end()
      }
    },
  })
  started.defer(() => authenticator.close())
  const keys = createKeyRing(desk)
  const reports = reportSql(general)
  const useOfKeys = (customerId: string) => readKeyUses(reports, customerId, clock.epochMs())
  const addressOf = (request: FastifyRequest) => clientTrace(config, request).address
  const bodyDeps = {
    clock,
    addressOf,
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
    allowsContent: config.content.isAllowed,
  }
  return {
    authenticator,
    findPrices,
    changes,
    onSupplyRead: listener => supplyListeners.push(listener),
    endpoints: [
      keysList({ keys, readKeyUses: useOfKeys, allowsContent: config.content.isAllowed }),
      keyCreate({ keys, readKeyUses: useOfKeys, ...bodyDeps }),
      keyEdit({ keys, readKeyUses: useOfKeys, ...bodyDeps }),
      keyDelete({ keys, addressOf }),
      keyRotate({ keys, readKeyUses: useOfKeys, ...bodyDeps }),
      keyFind({ keys, readKeyUses: useOfKeys, ...bodyDeps }),
      playgroundKey({ issue: order => issuePlaygroundKey(keys, order), readKeyUses: useOfKeys, ...bodyDeps }),
    ],
  }
}
