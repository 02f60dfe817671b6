import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { usd } from '../../base/domain/money.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { AutoTopUp, AutoTopUps } from '../../money/payments/auto-top-up.ts'
import { type AutoTopUpShown, autoTopUp, parseAutoTopUp, paymentMethods } from '../../wire/api/auto-top-up.ts'
import { actingOf } from '../acting-of.ts'
import { consoleDoc, consoleEndpoint } from '../console/console-endpoint.ts'
import type { Endpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

const PATH = 'customers/:customer_id'

/** Automatic top-ups and saved payment methods of one customer. */
export function autoTopUpEndpoints(deps: {
  readonly autoTopUps: AutoTopUps
  /** The address of the client, as proxies report it. */
  readonly addressOf: (request: FastifyRequest) => string
  readonly bodyLimitBytes: number
}): Endpoint[] {
  const { autoTopUps, bodyLimitBytes } = deps
  const body = ({ raw }: FastifyRequest) => receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
  const access = { access: 'session', right: 'credits' } as const
  return [
    consoleEndpoint('GET', `${PATH}/auto-top-up`, {
      ...access,
      doc: consoleDoc('Show the automatic top-up', autoTopUp),
      handle: async ({ caller }) => show(await autoTopUps.read(caller.customerId)),
    }),
    consoleEndpoint('POST', `${PATH}/auto-top-up`, {
      ...access,
      needsConfirmation: true,
      doc: consoleDoc('Turn automatic top-ups on', autoTopUp),
      async handle(context) {
        const { caller, signedIn, request } = context
        const by = { ...actingOf(deps, context), personId: signedIn.person.personId }
        await autoTopUps.turnOn(caller.customerId, by, parseAutoTopUp(await body(request)))
        return show(await autoTopUps.read(caller.customerId))
      },
    }),
    consoleEndpoint('DELETE', `${PATH}/auto-top-up`, {
      ...access,
      doc: consoleDoc('Turn automatic top-ups off', autoTopUp),
      async handle(context) {
        await autoTopUps.turnOff(context.caller.customerId, actingOf(deps, context))
        return show(undefined)
      },
    }),
    consoleEndpoint('GET', `${PATH}/payment-methods`, {
      ...access,
      doc: consoleDoc('List saved payment methods', paymentMethods),
      handle: async ({ caller }) => ({
        data: (await autoTopUps.methods(caller.customerId)).map(
          ({ methodId, driver, brand, last4, expires, createdAt }) => ({
            id: methodId,
            driver,
            brand,
            last4,
            expires,
            created_at: createdAt.toISOString(),
          }),
        ),
      }),
    }),
    consoleEndpoint('DELETE', `${PATH}/payment-methods/:method_id`, {
      ...access,
      doc: consoleDoc('Remove a payment method', z.object({ removed: z.literal(true) })),
      async handle(context) {
        const { method_id: id } = context.request.params as { method_id: string }
        if (!UUID.test(id)) throw new ApiError('not_found')
        await autoTopUps.removeMethod(context.caller.customerId, id, actingOf(deps, context))
        return { removed: true }
      },
    }),
  ]
}

function show(found: AutoTopUp | undefined): AutoTopUpShown {
  return {
    state: found === undefined ? 'off' : found.pausedAt === null ? 'on' : 'paused',
    method_id: found?.methodId ?? null,
    threshold_usd: found === undefined ? null : usd(found.thresholdNanos),
    amount_usd: found === undefined ? null : usd(found.amountNanos),
    monthly_max_usd: found === undefined ? null : usd(found.monthlyMaxNanos),
    charged_this_month_usd: found === undefined ? 0 : usd(found.chargedNanos),
    pause_reason: found?.pauseReason ?? null,
    consented_at: found?.consentedAt.toISOString() ?? null,
  }
}
