import type { Customer } from '../money/accounts/customers.ts'
import { emailOrNull } from '../money/accounts/email-or-null.ts'

/** A customer for programs, without its money. */
export function customerJson({ customerId, email, accountTier, createdAt, disabledAt, deletedAt }: Customer) {
  return {
    customer_id: customerId,
    email: emailOrNull(email),
    account_tier: accountTier,
    state: deletedAt !== null ? 'deleted' : disabledAt !== null ? 'disabled' : 'active',
    disabled: disabledAt !== null,
    created_at: createdAt.toISOString(),
    deleted_at: deletedAt?.toISOString() ?? null,
  }
}
