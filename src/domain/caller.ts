import type { Nanos } from './money.ts'

/** What an account may do per UTC window. Comes from its account tier, with the customer's own overrides on top. */
export interface AccountLimits {
  readonly requestsPerMinute: number
  readonly requestsPerDay: number
  readonly dailySpendCapNanos: Nanos
}

export const limitResets = ['none', 'daily', 'weekly', 'monthly'] as const
/** When a key's spend limit starts again: at 00:00 UTC, of Mondays, of the first of the month; or never. */
export type LimitReset = (typeof limitResets)[number]

/** `manage` may make, list and delete the keys of its customer, and change its alerts. */
export const keyScopes = ['manage'] as const
export type KeyScope = (typeof keyScopes)[number]

export interface KeyLimit {
  readonly limitNanos: Nanos
  readonly reset: LimitReset
}

/** What one key may do, within what its customer may. */
export interface KeyAccess {
  /** Null spends whatever its customer may. */
  readonly limit: KeyLimit | null
  /** Null asks for any model. */
  readonly allowedModels: ReadonlySet<string> | null
  /** May make, list and delete the keys of its customer, and change its alerts. */
  readonly mayManage: boolean
}

/** Of a key without limits and scopes. */
export const plainAccess: KeyAccess = { limit: null, allowedModels: null, mayManage: false }

/** The authenticated customer behind a request, as known when its key was last looked up (at most two seconds ago). */
export interface Caller {
  readonly customerId: string
  readonly keyId: string
  readonly access: KeyAccess
  readonly email: string
  readonly accountTier: string
  readonly limits: AccountLimits
}
