import { credentialHeader, type Offer } from '../../../base/domain/offer.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { getJson } from '../../../wire/egress/get-json.ts'
import { askContexts, type ListedModel } from './ask-contexts.ts'

/**
 * Asks the servers of these offers for the contexts of their models, all at once. Returns tokens by offer id, without
 * those that a server does not report. Never rejects: a server that does not answer in time reports nothing.
 */
export async function askDeclaredContexts(
  offers: readonly Offer[],
  timeoutMs = 1_000,
): Promise<ReadonlyMap<string, number>> {
  const byEndpoint = Map.groupBy(offers, offer => offer.endpoint)
  const reported = await Promise.all(
    [...byEndpoint].map(async ([endpoint, endpointOffers]) => {
      const credential = credentialHeader(endpoint)
      const headers = credential === null ? {} : Object.fromEntries([credential])
      const server = { baseUrl: endpoint.baseUrl, headers, timeoutMs }
      const answer = await getJson(`${endpoint.baseUrl}/models`, server).catch(() => undefined)
      if (answer?.status !== 200) return []
      const listed = isJsonObject(answer.body) && Array.isArray(answer.body.data) ? answer.body.data : []
      const models = endpointOffers.map(
        ({ upstreamModel: id }): ListedModel => listed.find(entry => isJsonObject(entry) && entry.id === id) ?? { id },
      )
      const { contexts } = await askContexts(server, models)
      return endpointOffers.flatMap(({ offerId, upstreamModel }) => {
        const context = contexts.get(upstreamModel)
        return context === undefined ? [] : [[offerId, context] as const]
      })
    }),
  )
  return new Map(reported.flat())
}
