import type { Nanos } from './money.ts'

export const alertKinds = ['low_balance', 'daily_spend', 'key_limit_reached', 'large_charge'] as const
export type AlertKind = (typeof alertKinds)[number]

export const alertChannels = ['email', 'webhook'] as const
export type AlertChannel = (typeof alertChannels)[number]

/** The kinds that need a threshold. The others must not have one. */
export const kindsWithThreshold: readonly AlertKind[] = ['low_balance', 'large_charge']

/** The smallest threshold of `large_charge`: the index that finds large charges contains no smaller ones. */
export const LARGE_CHARGE_NANOS_MIN: Nanos = 100_000_000n

/** A condition that a customer wants an alert for, and where to send it. */
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

/** A rule to create. */
export interface NewAlertRule {
  readonly kind: AlertKind
  readonly thresholdNanos: Nanos | null
  readonly channel: AlertChannel
  /** Null: the customer's own e-mail address. */
  readonly target: string | null
}

/** One alert with its delivery attempts. */
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
  /** The HTTP status; null for e-mail and when nothing answered. */
  readonly status: number | null
  readonly error: string | null
  readonly at: Date
}
