import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { EarningsService } from '../../money/payouts/earnings-service.ts'
import type { EnrollActor } from '../../money/payouts/payout-accounts.ts'
import { keyOfCursor } from '../../wire/api/cursor.ts'
import { daySpan, daySpanQuery } from '../../wire/api/day-span.ts'
import { earnings, earningsCsv } from '../../wire/api/earnings.ts'
import {
  enrolledAccount,
  hosterPayouts,
  movedEarnings,
  moveRequest,
  parseEnrolment,
  parseLink,
  parseMove,
  payoutAccount,
  payoutsCursor,
  payoutsQuery,
} from '../../wire/api/payouts.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint, EndpointContext, EndpointDoc, ReplyingEndpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'
import { hosterEndpoint } from './hoster-endpoint.ts'

interface EarningsDeps {
  readonly service: EarningsService
  /** The address of the client, as proxies report it. */
  readonly addressOf: (request: FastifyRequest) => string
  readonly bodyLimitBytes: number
}

/** What a hoster earned, its payouts, and where it is paid. */
export function earningsEndpoints({ service, addressOf, bodyLimitBytes }: EarningsDeps): Endpoint[] {
  const bodyOf = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
  const actorOf = ({ hoster, request }: EndpointContext): EnrollActor => ({
    personId: hoster.personId,
    address: addressOf(request),
  })
  const spanOf = ({ query }: FastifyRequest) => daySpan(readQuery(daySpanQuery, query), service.clock.epochMs())
  return [
    hosterEndpoint('GET', 'earnings', {
      scope: 'read',
      right: 'earnings',
      doc: {
        operationId: 'getHosterEarnings',
        summary: 'Show earnings',
        description:
          'Returns the balance of the hoster and a line for each UTC day and model, with everything else that changed the balance.',
        query: daySpanQuery,
        response: { contentType: 'application/json', schema: earnings, description: 'The statement.' },
      },
      handle: ({ hoster: { hosterId }, request }) => service.earnings(hosterId, spanOf(request)),
    }),
    hosterEndpoint('GET', 'earnings/export', {
      scope: 'read',
      right: 'earnings',
      doc: {
        operationId: 'exportHosterEarnings',
        summary: 'Export earnings as CSV',
        description: 'Returns the lines of the statement for a spreadsheet, exact to the nano-USD.',
        query: daySpanQuery,
        response: {
          contentType: 'text/csv',
          schema: earningsCsv,
          description: 'A CSV file with one line per day and model.',
        },
      },
      async handle({ hoster: { hosterId }, request, reply }) {
        const span = spanOf(request)
        const csv = await service.csv(hosterId, span)
        const fileName = `earnings-${span.from}-${span.until}.csv`
        reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${fileName}"`)
        return csv
      },
    }),
    hosterEndpoint('POST', 'earnings/move', {
      scope: 'manage',
      right: 'earnings',
      needsConfirmation: true,
      doc: {
        operationId: 'moveHosterEarnings',
        summary: 'Move earnings to a balance',
        description:
          'Gives earnings to the balance of the customer of this hoster, without a hold: they are spent on requests here.',
        body: moveRequest,
        errors: ['earnings_frozen', 'idempotency_key_reused'],
        response: { contentType: 'application/json', schema: movedEarnings, description: 'What was moved.' },
      },
      handle: async context =>
        service.move(context.hoster.hosterId, parseMove(await bodyOf(context.request)), {
          ...actorOf(context),
          keyId: context.hoster.keyId,
        }),
    }),
    hosterEndpoint('GET', 'payouts', {
      scope: 'read',
      right: 'earnings',
      doc: {
        operationId: 'listHosterPayouts',
        summary: 'List payouts',
        description: 'Returns the payouts of the hoster, the newest first.',
        query: payoutsQuery,
        response: { contentType: 'application/json', schema: hosterPayouts, description: 'A page of payouts.' },
      },
      handle({ hoster: { hosterId }, request }) {
        const { limit, cursor } = readQuery(payoutsQuery, request.query)
        const after = keyOfCursor(cursor, payoutsCursor)
        return service.payouts(hosterId, { limit, after })
      },
    }),
    hosterEndpoint('GET', 'payout-account', {
      scope: 'read',
      right: 'earnings',
      doc: {
        operationId: 'getPayoutAccount',
        summary: 'Show the payout account',
        description: 'Returns where the hoster is paid, and how hosters can be paid here.',
        response: { contentType: 'application/json', schema: payoutAccount, description: 'The account.' },
      },
      handle: ({ hoster: { hosterId } }) => service.account(hosterId),
    }),
    // Keys are stored on the machines of a hoster. A stolen key must not redirect payouts.
    forPeople('payout-account', 'Change the payout account', enrolledAccount, async context =>
      service.enroll(context.hoster.hosterId, parseEnrolment(await bodyOf(context.request)), actorOf(context)),
    ),
    forPeople('payout-customer', 'Name the customer that gets earnings', payoutAccount, async context => {
      const { customerId } = parseLink(await bodyOf(context.request))
      return service.setCustomer(context.hoster.hosterId, customerId, actorOf(context))
    }),
    // Stops a theft, so it needs no confirmation.
    forPeople(
      'payout-changes/:change_id/stop',
      'Stop a change of where earnings go',
      payoutAccount,
      context => {
        const { change_id } = context.request.params as { change_id: string }
        if (!UUID.test(change_id)) throw new ApiError('not_found')
        return service.stopChange(context.hoster.hosterId, change_id.toLowerCase(), actorOf(context))
      },
      { hosterRight: 'people' },
    ),
  ]
}

/** An endpoint for members of a hoster only: with a confirmed session, unless `rights` say otherwise. */
function forPeople(
  path: string,
  summary: string,
  schema: EndpointDoc['response']['schema'],
  handle: (context: EndpointContext) => unknown,
  rights: Pick<ReplyingEndpoint, 'hosterRight' | 'needsConfirmation'> = {
    hosterRight: 'earnings',
    needsConfirmation: true,
  },
): ReplyingEndpoint {
  return {
    method: 'POST',
    path: `/console/api/hosters/:hoster_id/${path}`,
    access: 'session',
    ...rights,
    doc: {
      operationId: summary,
      summary,
      description: summary,
      tag: 'Hosters',
      isHidden: true,
      response: { contentType: 'application/json', schema, description: summary },
    },
    handle,
  }
}
