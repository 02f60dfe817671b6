import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import type { Acting } from '../../base/domain/acting.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { type Customer, type OwnLimits, readOwnLimits } from './customers.ts'

/** What operators change of a customer. */
export interface CustomerState extends OwnLimits {
  readonly tier: string
  readonly isPaused: boolean
}

export async function readCustomerState(sql: Sql, customer: Customer): Promise<CustomerState> {
  const own = await readOwnLimits(sql, customer.customerId)
  return { tier: customer.accountTier, isPaused: customer.disabledAt !== null, ...own }
}

/** Notes in the audit log what has changed; nothing when nothing has. Call it last in a transaction. */
export async function noteCustomerChange(
  sql: Sql,
  { personId, keyId, address }: Acting,
  { customerId, email }: Pick<Customer, 'customerId' | 'email'>,
  { before, after }: { readonly before: CustomerState; readonly after: CustomerState },
): Promise<void> {
  const changed = (Object.keys(after) as (keyof CustomerState)[]).filter(name => after[name] !== before[name])
  if (changed.length === 0) return
  await noteAction(sql, {
    ...{ action: 'customer.changed', personId, keyId, address, customerId },
    subject: email,
    detail: { before: noted(before, changed), after: noted(after, changed) },
  })
}

/** Notes a new customer that nobody signed up for. As `noteCustomerChange`. */
export async function noteCustomerCreated(
  sql: Sql,
  { personId, keyId, address }: Acting,
  { customerId, email, accountTier }: Customer,
  creditNanos: Nanos,
): Promise<void> {
  await noteAction(sql, {
    ...{ action: 'customer.created', personId, keyId, address, customerId },
    subject: customerId,
    detail: { email, tier: accountTier, signup_credit_usd: usdText(creditNanos) },
  })
}

/** The changed fields, with the names and units of the API. */
function noted(state: CustomerState, changed: readonly (keyof CustomerState)[]): Record<string, unknown> {
  const all = {
    tier: ['tier', state.tier],
    isPaused: ['paused', state.isPaused],
    requestsPerMinute: ['requests_per_minute', state.requestsPerMinute],
    requestsPerDay: ['requests_per_day', state.requestsPerDay],
    dailySpendCapNanos: [
      'daily_spend_cap_usd',
      state.dailySpendCapNanos === null ? null : usdText(state.dailySpendCapNanos),
    ],
  } as const
  return Object.fromEntries(changed.map(name => all[name]))
}
