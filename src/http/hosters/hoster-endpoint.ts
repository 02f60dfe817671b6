import type { HosterRight, HosterScope } from '../../base/domain/hoster-access.ts'
import type { Endpoint, EndpointDoc, ReplyingEndpoint } from '../endpoint.ts'
import { isGeneration } from '../generation-routes.ts'

interface HosterEndpointRow extends Pick<ReplyingEndpoint, 'handle' | 'needsConfirmation'> {
  /** The scope that the key of a program needs. */
  readonly scope: HosterScope
  /** What a person needs at the hoster. Null: for programs only. */
  readonly right: HosterRight | null
  readonly doc: Omit<EndpointDoc, 'tag'>
}

/**
 * An endpoint of one hoster. Programs call `/v1/hoster/{path}` with a key of the hoster. People call the same handler at
 * `/console/api/hosters/{id}/{path}`. `context.hoster` names the hoster in both cases: a handler never reads it from the request.
 *
 * @param path below /v1/hoster; empty for the hoster itself
 */
export function hosterEndpoint(
  method: ReplyingEndpoint['method'],
  path: string,
  { scope, right, doc, handle, needsConfirmation }: HosterEndpointRow,
): ReplyingEndpoint {
  return {
    method,
    path: path === '' ? BASE : `${BASE}/${path}`,
    access: 'hoster_key',
    hosterScope: scope,
    isReport: true,
    ...(right !== null && { hosterRight: right }),
    ...(needsConfirmation !== undefined && { needsConfirmation }),
    doc: { ...doc, tag: 'Hosters' },
    handle,
  }
}

const BASE = '/v1/hoster'

/** Mounts the endpoints of hosters a second time, for people. */
export function forHosterMembers(endpoints: readonly Endpoint[]): Endpoint[] {
  return endpoints.flatMap(endpoint => {
    if (isGeneration(endpoint) || endpoint.access !== 'hoster_key' || endpoint.hosterRight === undefined) return []
    const { hosterScope: _, isReport: __, ...rest } = endpoint
    const path = `/console/api/hosters/:hoster_id${endpoint.path.slice(BASE.length)}`
    return [{ ...rest, path, access: 'session', doc: { ...endpoint.doc, isHidden: true } } satisfies Endpoint]
  })
}
