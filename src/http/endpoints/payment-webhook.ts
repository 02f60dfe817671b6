import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import {
  InvalidEvent,
  InvalidSignature,
  type PaymentDriver,
  ProviderUnavailable,
  type ProviderWebhook,
} from '../../money/payments/payment-driver.ts'
import type { PaymentSync } from '../../money/payments/payment-sync.ts'
import type { PayoutDriver } from '../../money/payouts/payout-driver.ts'
import type { PayoutSync } from '../../money/payouts/payout-sync.ts'
import type { ReplyingEndpoint } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

/**
 * POST /webhooks/{name of the driver}: events of its provider, signed. Events about transfers and accounts go to
 * payouts.
 */
export function paymentWebhook({
  driver,
  webhook,
  sync,
  payouts,
  bodyLimitBytes,
}: {
  readonly driver: PaymentDriver
  readonly webhook: ProviderWebhook
  readonly sync: PaymentSync
  /** Null: hosters are not paid by this provider. */
  readonly payouts: { readonly driver: PayoutDriver; readonly sync: PayoutSync } | null
  readonly bodyLimitBytes: number
}): ReplyingEndpoint {
  const { signatureHeader } = webhook
  const summary = 'Receive an event of the payment provider'
  const schema = z.object({ received: z.literal(true) })
  return {
    method: 'POST',
    path: `/webhooks/${driver.name}`,
    access: 'open',
    doc: {
      operationId: summary,
      summary,
      description: summary,
      tag: 'Service',
      isHidden: true,
      response: { contentType: 'application/json', schema, description: summary },
    },
    async handle({ request }) {
      const body = await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
      try {
        const event = await webhook.readEvent(body, String(request.headers[signatureHeader.toLowerCase()] ?? ''))
        if (event?.about === 'payment') await sync.handleEvent(driver, event)
        if (event?.about === 'payout') await payouts?.sync.handleEvent(payouts.driver, event)
      } catch (error) {
        if (error instanceof InvalidSignature) {
          throw new ApiError('invalid_header', {
            param: signatureHeader,
            message: 'The signature of the event is wrong.',
          })
        }
        if (error instanceof InvalidEvent) {
          throw new ApiError('invalid_json', { message: 'The body is not an event of the payment provider.' })
        }
        // The provider sends it again.
        if (error instanceof ProviderUnavailable)
          throw new ApiError('payment_provider_unavailable', { internal: error })
        throw error
      }
      return { received: true }
    },
  }
}
