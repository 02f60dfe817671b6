import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { Payments } from '../../money/payments/payments.ts'
import type { Payment } from '../../money/payments/read-payments.ts'
import { showTopUp } from '../../money/payments/show-payment.ts'
import { keyOfCursor, pageOf } from '../../wire/api/cursor.ts'
import {
  parseEmpty,
  parseRedemption,
  parseTopUp,
  paymentOptions,
  paymentsCursor,
  topUp,
  topUpList,
  topUpsQuery,
} from '../../wire/api/payments.ts'
import { readQuery } from '../../wire/api/reports.ts'
import { actingOf } from '../acting-of.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'
import { readIdempotencyKey } from '../request-headers.ts'

export interface PaymentEndpointsDeps {
  readonly payments: Payments
  readonly debtNanos: (customerId: string) => Promise<Nanos>
  readonly addressOf: (request: FastifyRequest) => string
  readonly bodyLimitBytes: number
}

const PATH = 'customers/:customer_id'

/** Top-ups and vouchers of one customer: docs/console-api.md. */
export function paymentEndpoints(deps: PaymentEndpointsDeps): Endpoint[] {
  const { payments } = deps
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), deps.bodyLimitBytes, uncounted)
  const show = (payment: Payment) => showTopUp(payment, payments.instructionsFor(payment))
  const access = { access: 'session', right: 'credits' } as const
  return [
    consoleEndpoint('GET', `${PATH}/payment-options`, {
      ...access,
      doc: consoleDoc('Show how credit can be bought', paymentOptions),
      handle: async ({ caller }) => ({
        drivers: [...payments.drivers.map(({ name }) => name), 'voucher'],
        min_usd: usd(payments.limits.minNanos),
        max_usd: usd(payments.limits.maxNanos),
        debt_usd: usd(await deps.debtNanos(caller.customerId)),
        can_save_method: payments.drivers.some(({ provider }) => provider?.savedMethods != null),
      }),
    }),
    consoleEndpoint('GET', `${PATH}/top-ups`, {
      ...access,
      doc: consoleDoc('List the top-ups', topUpList),
      async handle({ caller, request }) {
        const { limit, cursor } = readQuery(topUpsQuery, request.query)
        const after = keyOfCursor(cursor, paymentsCursor)
        const rows = await payments.list(caller.customerId, { limit: limit + 1, after })
        const { page, next_cursor } = pageOf(rows, limit, row => row.paymentId)
        return {
          data: page.map(show),
          next_cursor,
        }
      },
    }),
    consoleEndpoint('POST', `${PATH}/top-ups`, {
      ...access,
      doc: consoleDoc('Start a top-up', topUp),
      async handle({ caller, signedIn, request }) {
        const order = parseTopUp(await body(request))
        const idempotencyKey = readIdempotencyKey(new NodeRequest(request.raw))
        if (idempotencyKey === undefined) {
          throw new ApiError('missing_parameter', {
            param: 'Idempotency-Key',
            message: 'The header Idempotency-Key is required, so that a repeated request starts one top-up.',
          })
        }
        const { personId } = signedIn.person
        const address = deps.addressOf(request)
        return show(
          await payments.start({ ...order, customerId: caller.customerId, personId, address, idempotencyKey }),
        )
      },
    }),
    consoleEndpoint('GET', `${PATH}/top-ups/:payment_id`, {
      ...access,
      doc: consoleDoc('Show a top-up', topUp),
      handle: async context => show(await payments.one(context.caller.customerId, idOf(context))),
    }),
    consoleEndpoint('POST', `${PATH}/top-ups/:payment_id/cancel`, {
      ...access,
      doc: consoleDoc('Cancel a top-up that waits for its payer', topUp),
      async handle(context) {
        parseEmpty(await body(context.request))
        return show(await payments.cancel(context.caller.customerId, idOf(context), actingOf(deps, context)))
      },
    }),
    consoleEndpoint('POST', `${PATH}/vouchers/redeem`, {
      ...access,
      doc: consoleDoc('Redeem a voucher', topUp),
      async handle({ caller: { customerId }, signedIn, request }) {
        const { code } = parseRedemption(await body(request))
        const { personId } = signedIn.person
        return show(await payments.redeem({ customerId, personId, code, address: deps.addressOf(request) }))
      },
    }),
  ]
}

function idOf({ request }: EndpointContext): string {
  const { payment_id: id } = request.params as { payment_id: string }
  if (UUID.test(id)) return id.toLowerCase()
  throw new ApiError('payment_not_found')
}
