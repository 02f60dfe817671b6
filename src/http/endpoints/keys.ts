import { deletedKey, issuedKey, keyList, keyRequest, parseKeyRequest, showKey } from '../../api/keys.ts'
import type { KeyRing } from '../../auth/key-ring.ts'
import { uncounted } from '../../runtime/byte-budget.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../receive-body.ts'

interface KeysDeps {
  readonly keys: KeyRing
}

/** GET /v1/keys */
export function keysList({ keys }: KeysDeps): Endpoint {
  return {
    method: 'GET',
    path: '/v1/keys',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'listKeys',
      summary: 'List API keys',
      description:
        'Lists all keys of the customer that were not deleted, newest first. Requires a key with the scope `manage`.',
      tag: 'Keys',
      response: { contentType: 'application/json', schema: keyList, description: 'The keys.' },
    },
    handle: async ({ caller }) => ({ object: 'list', data: (await keys.list(caller.customerId)).map(showKey) }),
  }
}

/** POST /v1/keys */
export function keyCreate({
  keys,
  clock,
  bodyLimitBytes,
}: KeysDeps & { readonly clock: Clock; readonly bodyLimitBytes: number }): Endpoint {
  return {
    method: 'POST',
    path: '/v1/keys',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'createKey',
      summary: 'Create an API key',
      description: 'Only this response contains the key itself. Requires a key with the scope `manage`.',
      tag: 'Keys',
      body: keyRequest,
      response: { contentType: 'application/json', schema: issuedKey, description: 'The new key.' },
    },
    async handle({ caller, request, reply }) {
      const keyOptions = parseKeyRequest(
        await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted),
        clock.epochMs(),
      )
      const { key, listing } = await keys.issue({ ...keyOptions, customerId: caller.customerId })
      reply.header('cache-control', 'no-store')
      return { ...showKey(listing), key }
    },
  }
}

/** DELETE /v1/keys/{id} */
export function keyDelete({ keys }: KeysDeps): Endpoint {
  return {
    method: 'DELETE',
    path: '/v1/keys/*',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'deleteKey',
      summary: 'Delete an API key',
      description:
        'Revokes the key permanently, on all nodes within two seconds. Running requests finish. Requires a key with the scope `manage`.',
      tag: 'Keys',
      openapiPath: '/v1/keys/{id}',
      errors: ['not_found'],
      response: { contentType: 'application/json', schema: deletedKey, description: 'The key was deleted.' },
    },
    async handle({ caller, request }) {
      const id = (request.params as { '*': string })['*'].toLowerCase()
      await keys.revoke(caller.customerId, id)
      return { id, object: 'key', deleted: true }
    },
  }
}
