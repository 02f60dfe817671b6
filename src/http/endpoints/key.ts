import type { Reports } from '../../money/usage/reports.ts'
import { keyReport as schema } from '../../wire/api/keys.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/key */
export function keyShow(deps: { reports: Pick<Reports, 'key'> }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/key',
    access: 'key',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'getKey',
      summary: 'Get the current key',
      description: 'Returns the permissions, limits and usage of the key in the Authorization header.',
      tag: 'Keys',
      response: { contentType: 'application/json', schema, description: 'The key that authenticated the request.' },
    },
    handle: ({ caller }) => deps.reports.key(caller),
  }
}
