import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { type DaySpan, daySpan, daySpanQuery } from '../../wire/api/day-span.ts'
import {
  type HosterOffers,
  type HosterStatus,
  type HosterTraffic,
  hosterOffers,
  hosterStatus,
  hosterTraffic,
} from '../../wire/api/hoster-console.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint } from '../endpoint.ts'
import { hosterEndpoint } from './hoster-endpoint.ts'

interface HosterReportsDeps {
  readonly clock: Clock
  status(hosterId: string): Promise<HosterStatus>
  offers(hosterId: string): Promise<HosterOffers>
  traffic(hosterId: string, span: DaySpan): Promise<HosterTraffic>
}

const json = { contentType: 'application/json' } as const
const rights = { scope: 'read', right: 'read' } as const

/** What a hoster sees of its servers, its offers and its traffic. */
export function hosterReports({ clock, status, offers, traffic }: HosterReportsDeps): Endpoint[] {
  const spanOf = ({ query }: FastifyRequest) => daySpan(readQuery(daySpanQuery, query), clock.epochMs())
  return [
    hosterEndpoint('GET', 'status', {
      ...rights,
      doc: {
        operationId: 'getHosterStatus',
        summary: 'Show models and agents',
        description: 'Returns the offered models with their health on all nodes, and the agents that are connected.',
        response: { ...json, schema: hosterStatus, description: 'The models and agents.' },
      },
      handle: ({ hoster: { hosterId } }) => status(hosterId),
    }),
    hosterEndpoint('GET', 'offers', {
      ...rights,
      doc: {
        operationId: 'getHosterOffers',
        summary: 'Show offers and what other prices would do',
        description:
          'Returns the prices with their versions, the servers that compete, and an estimate for other prices: how often routing would have tried this hoster first, for the typical request of the last seven days.',
        response: { ...json, schema: hosterOffers, description: 'The offers.' },
      },
      handle: ({ hoster: { hosterId } }) => offers(hosterId),
    }),
    hosterEndpoint('GET', 'traffic', {
      ...rights,
      doc: {
        operationId: 'getHosterTraffic',
        summary: 'Show traffic',
        description:
          "Returns attempts by outcome, and the hoster's count of tokens against the gateway's, for each UTC day and model.",
        query: daySpanQuery,
        response: { ...json, schema: hosterTraffic, description: 'The traffic.' },
      },
      handle: ({ hoster: { hosterId }, request }) => traffic(hosterId, spanOf(request)),
    }),
  ]
}
