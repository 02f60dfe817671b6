import { Readable } from 'node:stream'
import { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import { UUID } from '../../../base/runtime/uuid.ts'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import { requestContent } from '../../../wire/api/activity.ts'
import { latencyReport } from '../../../wire/api/console-data.ts'
import { operatorReceipt } from '../../../wire/api/operator/receipt.ts'
import { requestLog, requestLogQuery } from '../../../wire/api/operator/requests.ts'
import {
  operatorUsage,
  operatorUsageQuery,
  usageEventContentTypes,
  usageEventSpan,
  usageEventsQuery,
  usageSpan,
} from '../../../wire/api/operator/usage.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint, EndpointContext } from '../../endpoint.ts'
import { actorOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Usage over all customers, for the screen and as CSV. */
export function operatorUsageEndpoints({
  operator,
  clock,
  addressOf,
}: Pick<OperatorEndpointDeps, 'addressOf'> & {
  readonly operator: OperatorConsole
  readonly clock: Clock
}): Endpoint[] {
  const spanOf = ({ request }: EndpointContext) =>
    usageSpan(readQuery(operatorUsageQuery, request.query), clock.epochMs())
  return [
    operatorEndpoint(
      'GET',
      'usage',
      { scope: 'read', summary: 'Show usage over all customers', schema: operatorUsage, query: operatorUsageQuery },
      context => operator.usage(spanOf(context)),
    ),
    operatorEndpoint(
      'GET',
      'latency',
      { scope: 'read', summary: 'Show the latency of the newest requests of all customers', schema: latencyReport },
      () => operator.latency(),
    ),
    operatorEndpoint(
      'GET',
      'requests',
      { scope: 'read', summary: 'List requests of all customers', schema: requestLog, query: requestLogQuery },
      async ({ request, signedIn }) => {
        const query = readQuery(requestLogQuery, request.query)
        const customer = query.customer ?? (query.key === undefined ? null : await operator.customerOfKey(query.key))
        if (customer !== null)
          await operator.noteVisit(signedIn, { action: 'customer.viewed', subject: customer }, addressOf(request))
        return operator.requests(query)
      },
    ),
    operatorEndpoint(
      'GET',
      'requests/:request_id',
      { scope: 'read', summary: 'Show a request of any customer, with what it cost', schema: operatorReceipt },
      async ({ request, signedIn }) => {
        const { request_id: id } = request.params as { request_id: string }
        const receipt = UUID.test(id) ? await operator.receipt(id.toLowerCase()) : null
        if (receipt === null) throw new ApiError('request_not_found')
        const visit = { action: 'customer.viewed', subject: receipt.customer.id } as const
        await operator.noteVisit(signedIn, visit, addressOf(request))
        return receipt
      },
    ),
    operatorEndpoint(
      'GET',
      'requests/:request_id/content',
      { scope: null, summary: 'Show the prompt and the answer of a request', schema: requestContent },
      context =>
        operator.viewContent(
          actorOf({ addressOf }, context),
          (context.request.params as { request_id: string }).request_id,
        ),
    ),
    operatorEndpoint(
      'GET',
      'usage/export',
      {
        scope: 'read',
        summary: 'Export usage over all customers as CSV',
        schema: z.string(),
        contentTypes: ['text/csv'],
        query: operatorUsageQuery,
      },
      async context => {
        const span = spanOf(context)
        const csv = await operator.exportUsage(span)
        context.reply
          .type('text/csv; charset=utf-8')
          .header('content-disposition', `attachment; filename="usage-by-${span.by}-${span.from}-${span.until}.csv"`)
        return Readable.from(csv)
      },
    ),
    operatorEndpoint(
      'GET',
      'usage/events',
      {
        scope: 'read',
        summary: 'Export the usage events of all customers as JSON lines or Parquet',
        schema: z.string(),
        contentTypes: Object.values(usageEventContentTypes),
        query: usageEventsQuery,
        errors: ['missing_parameter', 'changed_meanwhile', 'too_many_concurrent_requests'],
      },
      async context => {
        const query = readQuery(usageEventsQuery, context.request.query)
        const { from, to, format } = query
        const span = usageEventSpan(query, clock.epochMs())
        const file = await operator.exportUsageEvents(actorOf({ addressOf }, context), span, format)
        const fileName = `usage-events-${from}${to === undefined ? '' : `-${to}`}.${format}`
        context.reply
          .type(usageEventContentTypes[format])
          .header('content-disposition', `attachment; filename="${fileName}"`)
        return file
      },
    ),
  ]
}
