import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import { type HosterFacts, hosterFacts, hosterFactsList } from '../../wire/api/public-hosters.ts'
import type { Endpoint } from '../endpoint.ts'

/** What customers may know of hosters. @param read of one hoster, or of all */
export function publicHosterEndpoints({
  read,
}: {
  readonly read: (hosterId: string | null) => Promise<HosterFacts[]>
}): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/v1/hosters',
      access: 'key',
      isReport: true,
      doc: {
        operationId: 'listHosters',
        summary: 'List hosters',
        description: 'Lists the hosters with their models, prices, region, data policy and trust score, oldest first.',
        tag: 'Hosters',
        response: { contentType: 'application/json', schema: hosterFactsList, description: 'The hosters.' },
      },
      handle: async () => ({ object: 'list', data: await read(null) }),
    },
    {
      method: 'GET',
      path: '/v1/hosters/:id',
      access: 'key',
      isReport: true,
      doc: {
        operationId: 'getHosterFacts',
        summary: 'Show one hoster',
        description: 'Returns what `GET /v1/hosters` lists.',
        tag: 'Hosters',
        openapiPath: '/v1/hosters/{id}',
        pathParameters: z.object({ id: z.string().meta({ description: 'UUID of the hoster.' }) }),
        errors: ['hoster_not_found'],
        response: { contentType: 'application/json', schema: hosterFacts, description: 'The hoster.' },
      },
      async handle({ request }) {
        const { id } = request.params as { id: string }
        const [found] = UUID.test(id) ? await read(id) : []
        if (found === undefined) throw new ApiError('hoster_not_found')
        return found
      },
    },
  ]
}
