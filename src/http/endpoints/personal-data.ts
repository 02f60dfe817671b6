import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { ClientTrace } from '../../identity/people/sessions.ts'
import type { DataProtection } from '../../operator/data-protection.ts'
import type { PersonalExport } from '../../operator/export-personal-data.ts'
import { parseNothing } from '../../wire/api/operator/customer-changes.ts'
import { personalDataExport } from '../../wire/api/operator/data-protection.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

/**
 * What is kept of the person who asks, and of a customer for its owners. Each is a POST: a GET with a cookie would let a link make a
 * browser save the file, and needs no confirmation.
 */
export function personalDataEndpoints({
  dataProtection,
  clientOf,
  bodyLimitBytes,
}: {
  readonly dataProtection: DataProtection
  readonly clientOf: (request: FastifyRequest) => ClientTrace
  readonly bodyLimitBytes: number
}): Endpoint[] {
  const readNothing = async ({ raw }: FastifyRequest) =>
    parseNothing(await receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted))
  const actingOf = ({ signedIn, request }: EndpointContext) => ({
    personId: signedIn.person.personId,
    keyId: null,
    address: clientOf(request).address,
  })
  return [
    consoleEndpoint('POST', 'person/export', {
      access: 'session',
      needsConfirmation: true,
      doc: consoleDoc('Export what is kept of the person', personalDataExport),
      async handle(context) {
        await readNothing(context.request)
        const acting = actingOf(context)
        return sendAttachment(context.reply, await dataProtection.exportPerson(acting, acting.personId))
      },
    }),
    consoleEndpoint('POST', 'customers/:customer_id/export', {
      access: 'session',
      right: 'people',
      needsConfirmation: true,
      doc: consoleDoc('Export what is kept of the customer', personalDataExport),
      async handle(context) {
        await readNothing(context.request)
        const { customerId } = context.caller
        return sendAttachment(context.reply, await dataProtection.exportCustomer(actingOf(context), customerId))
      },
    }),
  ]
}

/** Sends an export as a file, while it is read. */
export function sendAttachment(reply: FastifyReply, { fileName, json }: PersonalExport): Readable {
  reply.type('application/json; charset=utf-8').header('content-disposition', `attachment; filename="${fileName}"`)
  return json
}
