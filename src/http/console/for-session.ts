import type { CustomerRight } from '../../base/domain/member-role.ts'
import type { Endpoint, ReplyingEndpoint } from '../endpoint.ts'
import { isGeneration } from '../generation-routes.ts'

/** What a person needs for an address under /v1, by its second part. The others are for programs only. */
const rights: Readonly<Record<string, CustomerRight>> = {
  usage: 'usage',
  credits: 'usage',
  models: 'usage',
  hosters: 'usage',
  keys: 'keys',
  alerts: 'alerts',
}

/** The statement shows payments. */
const STATEMENT = '/v1/credits/transactions'

/**
 * Mounts the endpoints of `/v1` a second time, for people: `/v1/credits` as `/console/api/customers/{id}/credits`. The
 * handlers are the same, so the console shows what the API shows.
 */
export function forSession(endpoints: readonly Endpoint[]): Endpoint[] {
  return endpoints.flatMap(endpoint => {
    const right = rightFor(endpoint)
    if (isGeneration(endpoint) || right === undefined || !endpoint.path.startsWith('/v1/')) return []
    return [mounted(endpoint, right)]
  })
}

function rightFor({ path, scope }: Endpoint): CustomerRight | undefined {
  if (path === STATEMENT) return 'credits'
  const right = rights[path.split('/')[2] ?? '']
  // A report that not every key may read is not for every member either.
  return right === 'usage' && scope === 'manage' ? 'keys' : right
}

function mounted({ scope: _, isReport: __, ...endpoint }: ReplyingEndpoint, right: CustomerRight): ReplyingEndpoint {
  const path = `/console/api/customers/:customer_id${endpoint.path.slice('/v1'.length)}`
  return { ...endpoint, path, access: 'session', right, doc: { ...endpoint.doc, isHidden: true } }
}
