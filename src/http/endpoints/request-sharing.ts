import type { FastifyRequest } from 'fastify'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { RequestSharing } from '../../identity/people/request-sharing.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import { requestSharing, requireSharingConsent } from '../../wire/api/request-sharing.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

const PATH = 'customers/:customer_id/request-sharing'

/** Whether a customer shares its requests for audits of hosters. Owners decide. */
export function requestSharingEndpoints({
  sharing,
  clientOf,
  bodyLimitBytes,
}: {
  readonly sharing: RequestSharing
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}): Endpoint[] {
  const set = async ({ signedIn, caller, request }: EndpointContext, isOn: boolean) => {
    await sharing.set({ signedIn, client: clientOf(request), customerId: caller.customerId }, isOn)
    return { is_on: isOn }
  }
  const owner = { access: 'session', right: 'people' } as const
  return [
    consoleEndpoint('GET', PATH, {
      access: 'session',
      right: 'usage',
      doc: consoleDoc('Show whether requests are shared', requestSharing),
      handle: async ({ caller }) => ({ is_on: await sharing.isOn(caller.customerId) }),
    }),
    consoleEndpoint('POST', PATH, {
      ...owner,
      needsConfirmation: true,
      doc: consoleDoc('Share requests', requestSharing),
      async handle(context) {
        requireSharingConsent(await receiveBody(new NodeRequest(context.request.raw), bodyLimitBytes, uncounted))
        return set(context, true)
      },
    }),
    consoleEndpoint('DELETE', PATH, {
      ...owner,
      doc: consoleDoc('Share requests no more', requestSharing),
      handle: context => set(context, false),
    }),
  ]
}
