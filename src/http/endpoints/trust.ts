import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { TrustService } from '../../market/trust/trust-service.ts'
import { appealBody, hosterTrust, ownTrust, parseAppeal } from '../../wire/api/trust.ts'
import type { Endpoint } from '../endpoint.ts'
import { hosterEndpoint } from '../hosters/hoster-endpoint.ts'
import { bodyOf, type OperatorEndpointDeps } from './operator/operator-endpoint.ts'

interface TrustDeps extends OperatorEndpointDeps {
  readonly service: TrustService
}

/** Why a hoster is trusted, for customers and for the hoster itself, and appeals. */
export function trustEndpoints(deps: TrustDeps): Endpoint[] {
  const { service, addressOf } = deps
  return [
    {
      method: 'GET',
      path: '/v1/hosters/:id/trust',
      access: 'key',
      isReport: true,
      doc: {
        operationId: 'getHosterTrust',
        summary: "Explain a hoster's trust score",
        description:
          'Returns each component of the score with its sample and bound, the cap, the gates and the last audits, as they were at the end of a UTC day that ended at least 24 hours ago.',
        tag: 'Hosters',
        openapiPath: '/v1/hosters/{id}/trust',
        pathParameters: z.object({ id: z.string().meta({ description: 'Id of the hoster.' }) }),
        errors: ['hoster_not_found'],
        response: { contentType: 'application/json', schema: hosterTrust, description: 'The score and its parts.' },
      },
      async handle({ request }) {
        const { id } = request.params as { id: string }
        if (!UUID.test(id)) throw new ApiError('hoster_not_found')
        return service.show(id.toLowerCase())
      },
    },
    hosterEndpoint('GET', 'trust', {
      scope: 'read',
      right: 'read',
      doc: {
        operationId: 'getOwnTrust',
        summary: 'Explain the own trust score',
        description:
          'Like the public page, with the tests, the reason of a quarantine, the appeals and the speed of answers.',
        response: { contentType: 'application/json', schema: ownTrust, description: 'The score and its parts.' },
      },
      handle: ({ hoster: { hosterId } }) => service.showOwn(hosterId),
    }),
    hosterEndpoint('POST', 'appeal', {
      scope: 'manage',
      right: 'manage',
      doc: {
        operationId: 'appealQuarantine',
        summary: 'Appeal against a quarantine',
        description: 'Asks the operator to look at a quarantine again. One appeal can wait at a time.',
        body: appealBody,
        errors: ['hoster_state_refused'],
        response: { contentType: 'application/json', schema: ownTrust, description: 'The score and its parts.' },
      },
      async handle({ hoster, request }) {
        const { text } = parseAppeal(await bodyOf(deps, request))
        await service.appeal(hoster, text, addressOf(request))
        return service.showOwn(hoster.hosterId)
      },
    }),
  ]
}
