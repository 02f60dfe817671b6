import type { Routing } from './chat-job.ts'
import type { Nanos } from './money.ts'
import type { PriceGroup } from './price-group.ts'

/** The limits of an account per UTC window: those of its account tier with the customer's own overrides. */
export interface AccountLimits {
  readonly requestsPerMinute: number
  readonly requestsPerDay: number
  readonly dailySpendCapNanos: Nanos
}

export const limitResets = ['none', 'daily', 'weekly', 'monthly'] as const
/**
 * When the spend limit of a key resets: daily, weekly (on Monday) or monthly (on the first), each at 00:00 UTC, or
 * never.
 */
export type LimitReset = (typeof limitResets)[number]

/** `manage` permits a key to create, list, change and delete the keys of its customer and to change its alerts. */
export const keyScopes = ['manage'] as const
export type KeyScope = (typeof keyScopes)[number]

/** How long a key goes on working when it is replaced, if nothing else is asked for. */
export const GRACE_SECONDS = 86_400

/** A spend limit of a key or of a member. */
export interface KeyLimit {
  readonly limitNanos: Nanos
  readonly reset: LimitReset
}

/** The spend limit of a member. It covers all keys that the person made. */
export interface MemberLimit extends KeyLimit {
  readonly personId: string
  /** E-mail address of the person. */
  readonly email: string
}

/** The permissions of one key, within the limits of its customer. */
export interface KeyAccess {
  /** Null: only the limits of the customer apply. */
  readonly limit: KeyLimit | null
  /** Null: the person that made the key has no limit, or no person made it. */
  readonly memberLimit: MemberLimit | null
  /** The label of requests that name none; null for none. */
  readonly label: string | null
  /** Null allows every model. */
  readonly allowedModels: ReadonlySet<string> | null
  /** The key has the scope `manage`. */
  readonly mayManage: boolean
  /** Routing fields that apply to every request with the key; null for none. */
  readonly defaults: Routing | null
  /** Prompts and answers of the key are recorded, where the operator allows it. */
  readonly recordsContent: boolean
}

/** The permissions of a key without limits and scopes. */
export const plainAccess: KeyAccess = {
  limit: null,
  memberLimit: null,
  label: null,
  allowedModels: null,
  mayManage: false,
  defaults: null,
  recordsContent: false,
}

/**
 * The authenticated customer of a request, as of the last look-up of its key. A change of the key or the customer
 * is seen within about two seconds.
 */
export interface Caller {
  readonly customerId: string
  readonly keyId: string
  readonly access: KeyAccess
  readonly email: string
  readonly accountTier: string
  /** The customer lets some of its requests be sent once more, to find hosters that cheat. */
  readonly sharesRequests: boolean
  readonly limits: AccountLimits
  /** The prices of the customer, or of its account tier. Null: those of the offers. */
  readonly prices: PriceGroup | null
}
