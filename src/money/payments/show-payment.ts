import { usd } from '../../base/domain/money.ts'
import type { OperatorPayment } from '../../wire/api/operator/payments.ts'
import type { TopUp } from '../../wire/api/payments.ts'
import { emailOrNull } from '../accounts/customers.ts'
import type { Payment } from './read-payments.ts'

/** @param instructions what the payer must do */
export function showTopUp(payment: Payment, instructions: string | null): TopUp {
  const { reversals } = payment
  const reversed = reversals.reduce((sum, { taken, returned }) => sum + BigInt(taken) - BigInt(returned), 0n)
  return {
    id: payment.paymentId,
    driver: payment.driver,
    purpose: payment.purpose,
    state: payment.state,
    amount_usd: usd(payment.amountNanos),
    reversed_usd: usd(reversed),
    reference: payment.reference,
    redirect_url: payment.redirectUrl,
    instructions,
    method: payment.method,
    receipt_url: payment.receiptUrl,
    invoice_url: payment.invoiceUrl,
    failure: payment.failure,
    created_at: payment.createdAt.toISOString(),
    expires_at: payment.expiresAt?.toISOString() ?? null,
    paid_at: payment.paidAt?.toISOString() ?? null,
    reversals: reversals.map(({ reversalId, kind, state, taken, returned, reason, at }) => ({
      id: reversalId,
      kind,
      state,
      taken_usd: usd(BigInt(taken)),
      returned_usd: usd(BigInt(returned)),
      reason,
      at: new Date(at).toISOString(),
    })),
  }
}

export function showOperatorPayment(payment: Payment): OperatorPayment {
  return {
    ...showTopUp(payment, null),
    customer_id: payment.customerId,
    email: emailOrNull(payment.email),
    provider_ref: payment.providerRef,
    fee_usd: usd(payment.feeNanos),
    mismatch: payment.mismatch,
    confirmed_by: payment.confirmedBy,
  }
}
