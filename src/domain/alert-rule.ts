import type { Nanos } from './money.ts'

export const alertKinds = ['low_balance', 'daily_spend', 'key_limit_reached', 'large_charge'] as const
export type AlertKind = (typeof alertKinds)[number]

export const alertChannels = ['email', 'webhook'] as const
export type AlertChannel = (typeof alertChannels)[number]

/** The kinds that need a threshold; the others have none. */
export const kindsWithThreshold: readonly AlertKind[] = ['low_balance', 'large_charge']

/** The smallest threshold of `large_charge`: the index that finds large charges has no smaller ones. */
export const LARGE_CHARGE_NANOS_MIN: Nanos = 100_000_000n

/** What a customer wants to be told of, and where. */
export interface AlertRule {
  readonly ruleId: string
  readonly customerId: string
  readonly kind: AlertKind
  readonly thresholdNanos: Nanos | null
  readonly channel: AlertChannel
  /** An e-mail address or a URL. */
  readonly target: string
  readonly createdAt: Date
}

/** A rule as it is asked for. */
export interface NewAlertRule {
  readonly kind: AlertKind
  readonly thresholdNanos: Nanos | null
  readonly channel: AlertChannel
  /** Null: the customer's own e-mail address. */
  readonly target: string | null
}

/** One alert and how telling it went. */
export interface AlertHistory {
  readonly alertId: string
  readonly kind: AlertKind | 'test'
  readonly createdAt: Date
  readonly deliveredAt: Date | null
  readonly attempts: readonly AlertAttempt[]
}

export interface AlertAttempt {
  readonly attempt: number
  readonly outcome: 'delivered' | 'logged' | 'failed'
  /** Of HTTP; null when nothing answered, and of e-mail. */
  readonly status: number | null
  readonly error: string | null
  readonly at: Date
}
