import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import { keyOfCursor } from '../../../wire/api/cursor.ts'
import { parseKeyChange, parseKeyRequest, parseKeySearch } from '../../../wire/api/key-request.ts'
import { key } from '../../../wire/api/keys.ts'
import {
  parseCustomerChange,
  parseInvite,
  parseNewCustomer,
  parseNothing,
  parseRefund,
} from '../../../wire/api/operator/customer-changes.ts'
import {
  customerDetail,
  customerPage,
  customersCursor,
  customersQuery,
  foundKey,
  issuedCustomerKey,
  refundResult,
} from '../../../wire/api/operator/customers.ts'
import { madeInvite, showInvite } from '../../../wire/api/people.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import { requireConfirmation } from '../../console/require-confirmation.ts'
import type { Endpoint, EndpointContext } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

interface CustomerDeps extends OperatorEndpointDeps {
  readonly operator: OperatorConsole
  readonly clock: Clock
  readonly urlFor: (request: FastifyRequest, path: string) => string
}

/** Customers as an operator sees and changes them. Each change is the function behind a command of the command line. */
export function operatorCustomerEndpoints(deps: CustomerDeps): Endpoint[] {
  const { operator, clock, urlFor } = deps
  const customerOf = (request: EndpointContext['request']) => idOf(request, 'customer_id', 'customer_not_found')
  const show = (context: EndpointContext, customerId: string) =>
    operator.showCustomer(customerId, context.signedIn.person.personId)
  return [
    operatorEndpoint(
      'GET',
      'customers',
      { scope: 'read', summary: 'List customers', schema: customerPage, query: customersQuery },
      ({ request }) => {
        const query = readQuery(customersQuery, request.query)
        const after = keyOfCursor(query.cursor, customersCursor)
        return operator.listCustomers(query, after)
      },
    ),
    operatorEndpoint(
      'POST',
      'customers',
      {
        scope: 'customers',
        isDoneOnce: true,
        summary: 'Add a customer',
        schema: customerDetail,
        needsConfirmation: true,
      },
      async context => {
        const order = parseNewCustomer(await bodyOf(deps, context.request))
        return show(context, await operator.addCustomer(actorOf(deps, context), order))
      },
    ),
    operatorEndpoint(
      'GET',
      'customers/:customer_id',
      { scope: 'read', summary: 'Show a customer', schema: customerDetail },
      async context => {
        const customerId = customerOf(context.request)
        const shown = await show(context, customerId)
        await operator.noteVisit(
          context.signedIn,
          { action: 'customer.viewed', subject: customerId },
          deps.addressOf(context.request),
        )
        return shown
      },
    ),
    operatorEndpoint(
      'PATCH',
      'customers/:customer_id',
      {
        scope: 'customers',
        summary: 'Change tier, limits or state of a customer',
        schema: customerDetail,
        needsConfirmation: true,
      },
      async context => {
        const customerId = customerOf(context.request)
        const change = parseCustomerChange(await bodyOf(deps, context.request))
        await operator.changeCustomer(actorOf(deps, context), customerId, change)
        return show(context, customerId)
      },
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/invites',
      { scope: 'customers', summary: 'Invite a person to a customer', schema: madeInvite, needsConfirmation: true },
      async context => {
        const { email, role } = parseInvite(await bodyOf(deps, context.request))
        const customerId = customerOf(context.request)
        const { person } = context.signedIn
        const { invite, isMailed, path } = await operator.inviteMember(
          actorOf(deps, context),
          { customerId, email, role },
          person.name || person.email,
        )
        return { ...showInvite(invite), is_mailed: isMailed, url: path === null ? null : urlFor(context.request, path) }
      },
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/keys',
      {
        scope: 'customers',
        isDoneOnce: true,
        summary: 'Make a key for a customer',
        schema: issuedCustomerKey,
        needsConfirmation: true,
      },
      async context => {
        const order = parseKeyRequest(await bodyOf(deps, context.request), clock.epochMs())
        return operator.issueKey(actorOf(deps, context), customerOf(context.request), order)
      },
    ),
    operatorEndpoint(
      'PATCH',
      'customers/:customer_id/keys/:key_id',
      {
        scope: 'customers',
        summary: 'Change a key of a customer',
        schema: key,
        needsConfirmation: true,
      },
      async context => {
        const change = parseKeyChange(await bodyOf(deps, context.request), clock.epochMs())
        const keyId = idOf(context.request, 'key_id', 'not_found')
        const customerId = customerOf(context.request)
        return operator.changeKey(actorOf(deps, context), { customerId, keyId, change })
      },
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/keys/:key_id/pause',
      {
        scope: 'customers',
        summary: 'Pause a key of a customer',
        schema: z.object({ paused: z.literal(true) }),
        needsConfirmation: false,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        const keyId = idOf(context.request, 'key_id', 'not_found')
        const customerId = customerOf(context.request)
        await operator.setKeyPaused(actorOf(deps, context), { customerId, keyId, isPaused: true })
        return { paused: true }
      },
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/keys/:key_id/resume',
      {
        scope: 'customers',
        summary: 'Resume a key of a customer',
        schema: z.object({ paused: z.literal(false) }),
        needsConfirmation: true,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        const keyId = idOf(context.request, 'key_id', 'not_found')
        const customerId = customerOf(context.request)
        await operator.setKeyPaused(actorOf(deps, context), { customerId, keyId, isPaused: false })
        return { paused: false }
      },
    ),
    operatorEndpoint(
      'POST',
      'customer-keys/find',
      { scope: 'customers', summary: 'Find a key of a customer', schema: foundKey, needsConfirmation: false },
      async context => operator.findKey(parseKeySearch(await bodyOf(deps, context.request)).key),
    ),
    operatorEndpoint(
      'DELETE',
      'customers/:customer_id/keys/:key_id',
      {
        scope: 'customers',
        summary: 'Revoke a key of a customer',
        schema: z.object({ revoked: z.literal(true) }),
        needsConfirmation: false,
      },
      async context => {
        const keyId = idOf(context.request, 'key_id', 'not_found')
        await operator.revokeKey(actorOf(deps, context), customerOf(context.request), keyId)
        return { revoked: true }
      },
    ),
    operatorEndpoint(
      'POST',
      'customers/:customer_id/refunds',
      {
        scope: 'money',
        isDoneOnce: true,
        summary: 'Refund a request',
        schema: refundResult,
        needsConfirmation: 'unless_dry_run',
      },
      async context => {
        const order = parseRefund(await bodyOf(deps, context.request))
        if (!order.isDryRun) requireConfirmation(context.signedIn, clock.epochMs())
        return operator.refund(actorOf(deps, context), customerOf(context.request), order)
      },
    ),
  ]
}
