import type { FastifyRequest } from 'fastify'
import { type KeyUse, unused } from '../../base/domain/spend.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { IssuedKey, KeyListing } from '../../identity/auth/keys.ts'
import type { PlaygroundOrder } from '../../identity/auth/playground-key.ts'
import { issuedKey, showKey } from '../../wire/api/keys.ts'
import { parsePlaygroundKey, playgroundKeyRequest } from '../../wire/api/playground-key.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

/** POST /console/api/customers/{id}/playground-key */
export function playgroundKey(deps: {
  readonly issue: (order: PlaygroundOrder) => Promise<IssuedKey & { readonly listing: KeyListing }>
  readonly readKeyUses: (customerId: string) => Promise<ReadonlyMap<string, KeyUse>>
  readonly clock: Clock
  readonly addressOf: (request: FastifyRequest) => string
  readonly bodyLimitBytes: number
}): Endpoint {
  return {
    method: 'POST',
    path: '/console/api/customers/:customer_id/playground-key',
    access: 'session',
    right: 'keys',
    doc: {
      operationId: 'createPlaygroundKey',
      summary: 'Make a key for the playground',
      description: 'The key ends after 12 hours. Earlier playground keys of the person end now.',
      tag: 'Service',
      isHidden: true,
      body: playgroundKeyRequest,
      response: { contentType: 'application/json', schema: issuedKey, description: 'The new key.' },
    },
    async handle({ caller: { customerId }, signedIn, request }) {
      const body = await receiveBody(new NodeRequest(request.raw), deps.bodyLimitBytes, uncounted)
      const limitNanos = parsePlaygroundKey(body)
      const { sessionId, person } = signedIn
      const { key, listing } = await deps.issue({
        ...{ customerId, personId: person.personId, sessionId, limitNanos },
        nowMs: deps.clock.epochMs(),
        address: deps.addressOf(request),
      })
      return { ...showKey(listing, (await deps.readKeyUses(customerId)).get(listing.keyId) ?? unused), key }
    },
  }
}
