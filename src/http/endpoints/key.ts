import { keyReport as schema } from '../../api/keys.ts'
import type { Reports } from '../../usage/reports.ts'
import type { Endpoint } from '../endpoint.ts'

/** GET /v1/key */
export function keyShow(deps: { reports: Pick<Reports, 'key'> }): Endpoint {
  return {
    method: 'GET',
    path: '/v1/key',
    access: 'key',
    isReport: true,
    doc: {
      operationId: 'getKey',
      summary: 'What this key may do and has used',
      tag: 'Keys',
      response: { contentType: 'application/json', schema, description: 'The key that was sent.' },
    },
    handle: ({ caller }) => deps.reports.key(caller),
  }
}
