import { type Balance, readBalance } from '../../ledger/accounts/read-balance.ts'
import { createEarlyLeaves, type EarlyLeaves } from '../../limits/early-leaves.ts'
import { createWindowView, type WindowView, windowCounts } from '../../limits/window-view.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** The rate windows and early leaves of customers, as known to this node. */
export interface Limits {
  /** Reads an account without a lock; undefined when the customer has none. */
  readonly readAccount: (customerId: string) => Promise<Balance | undefined>
  readonly windows: WindowView
  readonly earlyLeaves: EarlyLeaves
}

export function createLimits({ clock }: ComposeContext, { lookups }: Database): Limits {
  const readAccount = (customerId: string) => readBalance(lookups, customerId)
  return {
    readAccount,
    windows: createWindowView({
      clock,
      read: async (customerId, atMs) => windowCounts(await readAccount(customerId), atMs),
    }),
    earlyLeaves: createEarlyLeaves({ freePerDay: 20, freeSpendBps: 200n, clock }),
  }
}
