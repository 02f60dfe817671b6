import type { Nanos } from './money.ts'

/** What an account may do per UTC window. Comes from its account tier, with the customer's own overrides on top. */
export interface AccountLimits {
  readonly requestsPerMinute: number
  readonly requestsPerDay: number
  readonly dailySpendCapNanos: Nanos
}

/** The authenticated customer behind a request, as known when its key was last looked up (at most two seconds ago). */
export interface Caller {
  readonly customerId: string
  readonly keyId: string
  readonly email: string
  readonly accountTier: string
  readonly limits: AccountLimits
}
