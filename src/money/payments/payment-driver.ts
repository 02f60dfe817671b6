import type * as z from 'zod'
import type { Nanos } from '../../base/domain/money.ts'
import type { TopUpDriverName } from '../../base/domain/money-drivers.ts'

/** What the smallest unit of a currency is worth. Top-ups are charged in USD: nobody chooses the currency. */
export const nanosPerMinor: Readonly<Record<string, Nanos> & { usd: Nanos }> = { usd: 10_000_000n }

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

/** A payment that an earlier attempt may have made at the provider. */
export interface EarlierAttempt extends Pick<PaymentOrder, 'paymentId' | 'accountRef'> {
  /** The attempts began then. */
  readonly startedAt: Date
  /** No attempt was made later; null: they go on. */
  readonly endedAt: Date | null
  /** Whether it charges a saved method. */
  readonly isCharge: boolean
}

export interface StartedPayment {
  /** How the provider names the payment; null without a provider. */
  readonly providerRef: string | null
  /** Where the payer pays; null if the payer follows instructions. */
  readonly redirectUrl: string | null
}

/** The types of settings, as the configuration file reads and describes them. */
export interface SettingTypes {
  /** @param type what it is called in messages, which never show the value */
  secret(type: string, allowed: RegExp): z.ZodType<string>
  flag(): z.ZodType<boolean>
  httpUrl(): z.ZodType<string>
}

/** Moves money from payers. Credit is given elsewhere, and only for what `look` reports or an operator confirms. */
export interface PaymentDriver {
  readonly name: TopUpDriverName
  /** False in the provider's test mode. */
  readonly isLive: boolean
  /** How long the payer has, ms. */
  readonly openMs: number
  /** A second call with the same id returns the same payment. */
  start(order: PaymentOrder): Promise<StartedPayment>
  /** What the payer must do; null if `start` returns a page. */
  instructionsFor(payment: { readonly reference: string; readonly amountNanos: Nanos }): string | null
  /** Null: people confirm that the money arrived. */
  readonly provider: PaymentProvider | null
}

/**
 * What a provider reports about a payment, as of now. See book_payment_report in sql/functions/payments/reports.sql.
 */
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
  /** The charge of a paid payment as the provider lists it; null before. */
  readonly charge_ref: string | null
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

/** A charge, or money that went back to the payer, as the provider lists it. */
export interface ProviderMove {
  readonly kind: 'charge' | 'refund' | 'dispute'
  readonly ref: string
  /** What charges and their reversals have in common; see `charge_ref` of PaymentReport. */
  readonly chargeRef: string
  /** Our id of the payment, as the provider stores it with charges; null: none. */
  readonly paymentId: string | null
  /** The customer as the provider names it; null for reversals. */
  readonly accountRef: string | null
  /** `failed`: has moved no money. `returned`: a charge of which everything went back to the payer. */
  readonly state: 'pending' | 'done' | 'failed' | 'returned'
  readonly amountMinor: number
  readonly currency: string
  readonly atMs: number
}

/** An event: a hint that `ref` has changed. */
export interface EventRef {
  /** `payout`: a transfer to a hoster, or the hoster's account. */
  readonly about: 'payment' | 'payout'
  readonly eventId: string
  readonly type: string
  readonly ref: string
}

/**
 * A payment service, and what it can do: a capability that it lacks is null. All methods but `readEvent` throw
 * ProviderUnavailable when it does not answer. What creates something is repeated safely only for as long as the
 * provider keeps idempotency keys, so ask `find` before any attempt but the first. Two nodes may ask at the same
 * moment: a provider without such keys has no `savedMethods` and no `refunds`.
 */
export interface PaymentProvider {
  /** Null: it sends no events, or no secret is set to check them with. The job asks for payments then. */
  readonly webhook: ProviderWebhook | null
  /** Null: each top-up needs its payer. */
  readonly savedMethods: SavedMethods | null
  /** Null: it refunds on its own pages only. What it reports is booked all the same. */
  readonly refunds: ProviderRefunds | null
  /** Null: it lists no charges, so nothing is compared. */
  readonly moves: ProviderMoves | null
  /** Returns our id of the payment that an event names; null if it is not ours. */
  paymentIdOf(ref: string): Promise<string | null>
  /** Throws PaymentMissing if the provider has no such payment. */
  look(providerRef: string): Promise<PaymentReport>
  /** Returns what an earlier attempt has made, in any state; null: nothing. Rejects unless it is sure. */
  find(attempt: EarlierAttempt): Promise<StartedPayment | null>
}

/** Events of a provider, which it signs. */
export interface ProviderWebhook {
  /** The header with the signature, as the provider writes it. */
  readonly signatureHeader: string
  /**
   * Checks an event, and reads what it is about. Returns null for one that concerns neither a payment nor a payout.
   * Throws InvalidSignature and InvalidEvent.
   */
  readEvent(rawBody: Buffer, signature: string): Promise<EventRef | null>
}

/** Methods that payers let a provider keep for automatic top-ups. */
export interface SavedMethods {
  /**
   * Charges a saved method without the payer. Returns how the provider names the payment, whether it succeeded or not.
   * Throws ChargeRefused when there is no such name.
   */
  charge(order: PaymentOrder, methodRef: string): Promise<string>
}

export interface ProviderRefunds {
  /** Pays once for each id, however often and late it is repeated. Throws RefundRefused. */
  refund(providerRef: string, amountMinor: bigint, reversalId: string): Promise<void>
}

/** What a provider has made, to compare with the books. */
export interface ProviderMoves {
  /** Lists what was made in a span, also of other programs. */
  between(fromMs: number, untilMs: number): Promise<ProviderMove[]>
  /** Returns a move as it is now; null: there is none. */
  one(kind: ProviderMove['kind'], ref: string): Promise<ProviderMove | null>
  /** Returns the name to `look` with of the payment that a charge belongs to. */
  paymentOf(chargeRef: string): Promise<string>
}

export class InvalidSignature extends Error {
  override name = 'InvalidSignature'
}

/** A signed body that is no event. */
export class InvalidEvent extends Error {
  override name = 'InvalidEvent'
}

export class ProviderUnavailable extends Error {
  override name = 'ProviderUnavailable'
}

export class PaymentMissing extends Error {
  override name = 'PaymentMissing'
}

export class ChargeRefused extends Error {
  override name = 'ChargeRefused'
}

export class RefundRefused extends Error {
  override name = 'RefundRefused'
}
