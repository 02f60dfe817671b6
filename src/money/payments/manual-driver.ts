import { DAY_MS } from '../../base/domain/durations.ts'
import { usdText } from '../../base/domain/money.ts'
import type { PaymentDriver } from './payment-driver.ts'

const OPEN_MS = 30 * DAY_MS

/**
 * The payer follows the operator's instructions, such as a bank transfer. An operator confirms that the money arrived.
 *
 * @param instructions `{reference}` and `{amount}` stand for those of the payment
 */
export function createManualDriver(instructions: string): PaymentDriver {
  return {
    name: 'manual',
    isLive: true,
    openMs: OPEN_MS,
    start: async () => ({ providerRef: null, redirectUrl: null }),
    instructionsFor: ({ reference, amountNanos }) =>
      instructions.replaceAll('{reference}', reference).replaceAll('{amount}', `${usdText(amountNanos)} USD`),
    provider: null,
  }
}
