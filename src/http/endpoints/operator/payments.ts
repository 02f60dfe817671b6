import { z } from 'zod'
import type { PaymentService } from '../../../operator/payments.ts'
import { keyOfCursor } from '../../../wire/api/cursor.ts'
import { parseNothing } from '../../../wire/api/operator/customer-changes.ts'
import {
  confirmedPayment,
  madeVouchers,
  operatorPayment,
  operatorPayments,
  parseReversal,
  parseVoucherOrder,
  paymentsQuery,
  reconciliation,
  voucherList,
  vouchersQuery,
} from '../../../wire/api/operator/payments.ts'
import { paymentsCursor } from '../../../wire/api/payments.ts'
import { readQuery } from '../../../wire/api/reports.ts'
import type { Endpoint } from '../../endpoint.ts'
import { actorOf, bodyOf, idOf, type OperatorEndpointDeps, operatorEndpoint } from './operator-endpoint.ts'

/** Payments of all customers, and vouchers. */
export function operatorPaymentEndpoints(
  deps: OperatorEndpointDeps & { readonly paymentService: PaymentService },
): Endpoint[] {
  const { paymentService: service } = deps
  return [
    operatorEndpoint(
      'GET',
      'payments',
      { scope: 'read', summary: 'List payments', schema: operatorPayments, query: paymentsQuery },
      ({ request }) => {
        const query = readQuery(paymentsQuery, request.query)
        return service.list(query, keyOfCursor(query.cursor, paymentsCursor))
      },
    ),
    operatorEndpoint(
      'GET',
      'payments/:payment_id',
      { scope: 'read', summary: 'Show a payment', schema: operatorPayment },
      ({ request }) => service.one(idOf(request, 'payment_id', 'payment_not_found')),
    ),
    operatorEndpoint(
      'POST',
      'payments/:payment_id/confirm',
      {
        scope: 'money',
        summary: 'Confirm that the money of a manual payment arrived',
        schema: confirmedPayment,
        needsConfirmation: true,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        return service.confirm(actorOf(deps, context), idOf(context.request, 'payment_id', 'payment_not_found'))
      },
    ),
    operatorEndpoint(
      'POST',
      'payments/:payment_id/refunds',
      {
        scope: 'money',
        isDoneOnce: true,
        summary: 'Take a payment back',
        schema: operatorPayment,
        needsConfirmation: true,
      },
      async context => {
        const order = parseReversal(await bodyOf(deps, context.request))
        return service.reverse(actorOf(deps, context), idOf(context.request, 'payment_id', 'payment_not_found'), order)
      },
    ),
    operatorEndpoint(
      'POST',
      'reversals/:reversal_id/return',
      {
        scope: 'money',
        summary: 'Give back what a reversal of a manual payment took',
        schema: z.object({ returned: z.literal(true) }),
        needsConfirmation: true,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        await service.returnReversal(actorOf(deps, context), idOf(context.request, 'reversal_id', 'not_found'))
        return { returned: true }
      },
    ),
    operatorEndpoint(
      'POST',
      'payments/reconcile',
      {
        scope: 'money',
        summary: 'Ask the providers for all payments and book the differences',
        schema: reconciliation,
        needsConfirmation: false,
      },
      async context => {
        parseNothing(await bodyOf(deps, context.request))
        return service.reconcile(actorOf(deps, context))
      },
    ),
    operatorEndpoint(
      'GET',
      'vouchers',
      { scope: 'read', summary: 'List vouchers', schema: voucherList, query: vouchersQuery },
      ({ request }) => {
        const { limit, cursor } = readQuery(vouchersQuery, request.query)
        return service.listVouchers(limit, keyOfCursor(cursor, paymentsCursor))
      },
    ),
    operatorEndpoint(
      'POST',
      'vouchers',
      { scope: 'money', isDoneOnce: true, summary: 'Make vouchers', schema: madeVouchers, needsConfirmation: true },
      async context => {
        return service.makeVouchers(actorOf(deps, context), parseVoucherOrder(await bodyOf(deps, context.request)))
      },
    ),
    operatorEndpoint(
      'DELETE',
      'vouchers/:voucher_id',
      {
        scope: 'money',
        summary: 'Revoke a voucher',
        schema: z.object({ revoked: z.literal(true) }),
        needsConfirmation: true,
      },
      async context => {
        await service.revokeVoucher(actorOf(deps, context), idOf(context.request, 'voucher_id', 'not_found'))
        return { revoked: true }
      },
    ),
  ]
}
