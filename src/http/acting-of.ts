import type { FastifyRequest } from 'fastify'
import type { Acting } from '../base/domain/acting.ts'
import type { EndpointContext } from './endpoint.ts'

/** Returns who changes something of a customer, for the audit log: a person in the console, or a key. */
export function actingOf(
  { addressOf }: { readonly addressOf: (request: FastifyRequest) => string },
  { signedIn, caller, request }: EndpointContext,
): Acting {
  const address = addressOf(request)
  // The caller of a person has the id of the session in the place of the key.
  return signedIn === null
    ? { personId: null, keyId: caller.keyId, address }
    : { personId: signedIn.person.personId, keyId: null, address }
}
