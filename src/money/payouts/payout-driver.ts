import type { Nanos } from '../../base/domain/money.ts'
import type { PayoutDriverName } from '../../base/domain/money-drivers.ts'

/** A transfer to a hoster as a driver needs it. */
export interface PayoutOrder {
  /** Our id. It is the idempotency key of the transfer, and the provider stores it. */
  readonly payoutId: string
  readonly hosterId: string
  readonly amountNanos: Nanos
  /** The amount in the smallest unit of `currency`. */
  readonly amountMinor: bigint
  readonly currency: string
  /** See hoster_account in the migration of payouts. */
  readonly destination: string
  readonly holder: string | null
  /** The reference that people quote. */
  readonly reference: string
  /** How the provider names the transfer; null until it has answered. */
  readonly providerRef: string | null
}

/** A bank account that a hoster types. */
export interface BankDetails {
  readonly holder: string
  readonly account: string
}

/** Where a hoster is paid. */
export interface Enrolment {
  readonly destination: string
  /** Null where the provider knows it. */
  readonly holder: string | null
  /** The bank accounts behind it, as far as known: one hoster has each. */
  readonly identities: readonly string[]
  readonly isReady: boolean
  /** What the provider still asks for. */
  readonly note: string | null
  /** Where the hoster goes on; null if nothing is missing. */
  readonly url: string | null
}

/** What is known of a transfer, as of now. See book_payout_report in the migration of payouts. */
export type PayoutReport =
  | { readonly state: 'absent' | 'pending' }
  | { readonly state: 'failed'; readonly failure: string }
  | {
      readonly state: 'paid'
      readonly ref: string
      /** Our id, as the provider stores it. */
      readonly payout_id: string | null
      readonly amount_minor: number
      readonly currency: string
      readonly destination: string | null
      readonly is_live: boolean
      readonly reversed_minor: number
    }

export interface PayoutAnswer {
  /** For an operator to hand to a bank; null if the provider has the transfers. */
  readonly file: string | null
  /** How the provider names the transfers, by payout id. */
  readonly refs: ReadonlyMap<string, string>
}

/** Moves money to hosters. What has arrived is booked elsewhere, and only as `look` reports or an operator knows. */
export interface PayoutDriver {
  readonly name: PayoutDriverName
  /** False in the provider's test mode. */
  readonly isLive: boolean
  /**
   * Prepares the account of a hoster. A second call returns the same one. Throws ApiError `invalid_value`.
   *
   * @param destination the account of an earlier call
   * @param details null where the provider asks for them
   */
  enroll(hosterId: string, destination: string | null, details: BankDetails | null): Promise<Enrolment>
  /** Repeats with the same ids pay once. Throws PayoutRefused, and ProviderUnavailable when nobody answers. */
  pay(batch: readonly PayoutOrder[]): Promise<PayoutAnswer>
  /** Throws ProviderUnavailable. */
  look(order: PayoutOrder): Promise<PayoutReport>
  /** Null: people make the transfers, and say what has arrived. */
  readonly provider: PayoutProvider | null
}

/** What events of a provider name. All methods throw ProviderUnavailable. */
export interface PayoutProvider {
  /** Returns what an event is about: a payout, by our id, or the account of a hoster. Null: neither of ours. */
  subjectOf(ref: string): Promise<{ readonly payoutId: string } | { readonly destination: string } | null>
  /** Returns an account as it is now. */
  account(destination: string): Promise<Enrolment>
}

/** The provider made no transfer and will make none with this id. */
export class PayoutRefused extends Error {
  override name = 'PayoutRefused'
}
