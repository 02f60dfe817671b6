import type { Endpoint } from '../../http/endpoint.ts'
import { hosterEndpoints } from '../../http/hosters/hoster-endpoints.ts'
import { createHosterAuthenticator, type HosterAuthenticator } from '../../marketplace/hoster-authenticator.ts'
import { createHosterDesk } from '../../marketplace/hoster-desk.ts'
import type { Callers } from './callers.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Hosters that join by themselves: their keys and endpoints. */
export interface Marketplace {
  readonly authenticator: HosterAuthenticator
  readonly endpoints: readonly Endpoint[]
}

export function startMarketplace(
  { clock, started }: ComposeContext,
  { lookups, general }: Database,
  { changes }: Callers,
): Marketplace {
  const authenticator = createHosterAuthenticator({
    sql: lookups,
    clock,
    onAccessChange: listener => changes.onChange('access', listener),
  })
  started.defer(() => authenticator.close())
  return { authenticator, endpoints: hosterEndpoints({ desk: createHosterDesk({ pool: general }) }) }
}
