import { z } from 'zod'
import type { OperatorKeys } from '../../../operator/operator-keys.ts'
import { issuedOperatorKey, operatorKeyList, parseOperatorKey } from '../../../wire/api/operator/keys.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Keys of the operator API. People make and revoke them: a stolen key must not make another one. */
export function operatorKeyEndpoints(deps: OperatorEndpointDeps & { readonly keys: OperatorKeys }): Endpoint[] {
  const { keys } = deps
  return [
    operatorEndpoint(
      'GET',
      'keys',
      { summary: 'List keys of the operator API', schema: operatorKeyList, scope: 'read' },
      () => keys.list(),
    ),
    operatorEndpoint(
      'POST',
      'keys',
      { summary: 'Make a key of the operator API', schema: issuedOperatorKey, scope: null, needsConfirmation: true },
      async context => {
        const order = parseOperatorKey(await bodyOf(deps, context.request))
        return keys.issue(actorOf(deps, context), order)
      },
    ),
    operatorEndpoint(
      'DELETE',
      'keys/:key_id',
      {
        summary: 'Revoke a key of the operator API',
        schema: z.object({ revoked: z.literal(true) }),
        scope: null,
        needsConfirmation: false,
      },
      async context => {
        await keys.revoke(actorOf(deps, context), idOf(context.request, 'key_id', 'not_found'))
        return { revoked: true }
      },
    ),
  ]
}
