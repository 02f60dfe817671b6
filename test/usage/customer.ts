import { randomUUID } from 'node:crypto'
import type { Pool } from '../../src/base/db/pool.ts'
import { type Caller, plainAccess } from '../../src/base/domain/caller.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'

const limits = { requestsPerMinute: 20, requestsPerDay: 1000, dailySpendCapNanos: 5_000_000_000n }

/** Creates a customer with far more money than any test spends. */
export async function createRichCustomer(pool: Pool): Promise<Caller> {
  const caller = {
    customerId: randomUUID(),
    keyId: randomUUID(),
    email: `${randomUUID()}@example.com`,
    accountTier: 'free',
    sharesRequests: false,
    prices: null,
    access: plainAccess,
    limits,
  }
  await pool.query('INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)', [
    caller.customerId,
    caller.email,
    caller.accountTier,
  ])
  await openAccount(pool, caller.customerId, RICH_NANOS)
  return caller
}

export const RICH_NANOS = 1_000_000_000_000_000n
