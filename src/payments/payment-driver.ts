import type { Nanos } from '../domain/money.ts'

export type DriverName = 'manual' | 'stripe'

/** A top-up as a driver needs it. */
export interface PaymentOrder {
  /** Ours. A driver that talks to a provider uses it as idempotency key, and stores it there. */
  readonly paymentId: string
  readonly customerId: string
  /** The credit. */
  readonly amountNanos: Nanos
  /** The same in the smallest unit of `currency`, without taxes. */
  readonly amountMinor: bigint
  readonly currency: string
  /** What people quote. */
  readonly reference: string
  /** Whether the payer wants the payment method to be kept for later top-ups. */
  readonly savesMethod: boolean
  /** The customer as the provider names it; null before the first saved method. */
  readonly accountRef: string | null
}

export interface StartedPayment {
  /** How the provider names the payment; null without a provider. */
  readonly providerRef: string | null
  /** Where the payer pays; null if the payer follows instructions. */
  readonly redirectUrl: string | null
}

/** Moves money from payers. Credit is given elsewhere, and only for what `look` reports or an operator confirms. */
export interface PaymentDriver {
  readonly name: DriverName
  /** False in the provider's test mode. */
  readonly isLive: boolean
  /** How long the payer has, ms. */
  readonly openMs: number
  /** A second call with the same id returns the same payment. */
  start(order: PaymentOrder): Promise<StartedPayment>
  /** What the payer must do; null if `start` returns a page. */
  instructionsFor(payment: { readonly reference: string; readonly amountNanos: Nanos }): string | null
  /** Set for drivers with a provider. */
  readonly provider?: PaymentProvider
}

/** What a provider reports about a payment, as of now. See book_payment_report in migrations/0017_payments.sql. */
export interface PaymentReport {
  readonly state: 'open' | 'processing' | 'paid' | 'failed' | 'expired' | 'cancelled'
  /** Our id, as the provider stores it. */
  readonly payment_id: string | null
  /** Without taxes. */
  readonly amount_minor: number | null
  /** With taxes. */
  readonly total_minor: number
  readonly currency: string | null
  readonly is_live: boolean
  readonly failure: string | null
  readonly receipt_url: string | null
  readonly invoice_url: string | null
  /** Null: unknown. */
  readonly fee_nanos: string | null
  readonly reversals: readonly ReportedReversal[]
  /** Set if the payer let the provider keep the payment method. */
  readonly method: ReportedMethod | null
}

export interface ReportedMethod {
  /** The customer as the provider names it. */
  readonly accountRef: string
  readonly ref: string
  readonly brand: string
  readonly last4: string
  /** The same for the same card or bank account of all customers; null where the provider has none. Not its number. */
  readonly identity: string | null
  readonly expires: string
}

export interface ReportedReversal {
  readonly ref: string
  readonly kind: 'refund' | 'dispute'
  /** What went back to the payer and did not return. */
  readonly minor: number
  /** Ours, for refunds that we asked for. */
  readonly reversal_id: string | null
  readonly reason: string
}

/** An event: a hint that `ref` has changed. */
export interface EventRef {
  /** `payout`: a transfer to a hoster, or the hoster's account. */
  readonly about: 'payment' | 'payout'
  readonly eventId: string
  readonly type: string
  readonly ref: string
}

/** A payment service. All methods but `readEvent` throw ProviderUnavailable when it does not answer. */
export interface PaymentProvider {
  /** Returns null for an event that concerns no payment, and throws InvalidSignature. */
  readEvent(rawBody: Buffer, signature: string): Promise<EventRef | null>
  /** Returns our id of the payment that an event names; null if it is not ours. */
  paymentIdOf(ref: string): Promise<string | null>
  look(providerRef: string): Promise<PaymentReport>
  /**
   * Charges a saved method without the payer. Repeats with the same id charge once. Returns how the provider names the payment,
   * whether it succeeded or not. Throws ChargeRefused when there is no such name.
   */
  charge(order: PaymentOrder, methodRef: string): Promise<string>
  /** Repeats with the same id pay once. Throws RefundRefused. */
  refund(providerRef: string, amountMinor: bigint, reversalId: string): Promise<void>
}

export class InvalidSignature extends Error {
  override name = 'InvalidSignature'
}

export class ProviderUnavailable extends Error {
  override name = 'ProviderUnavailable'
}

export class ChargeRefused extends Error {
  override name = 'ChargeRefused'
}

export class RefundRefused extends Error {
  override name = 'RefundRefused'
}
