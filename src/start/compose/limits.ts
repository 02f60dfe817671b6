import { type Balance, readBalance } from '../../ledger/accounts/read-balance.ts'
import { createEarlyDisconnects, type EarlyDisconnects } from '../../limits/early-disconnects.ts'
import { createWindowView, type WindowView, windowCounts } from '../../limits/window-view.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** The rate windows and early disconnects of customers, as known to this node. */
export interface Limits {
  /** Reads an account without a lock; undefined when the customer has none. */
  readonly readAccount: (customerId: string) => Promise<Balance | undefined>
  readonly windows: WindowView
  readonly earlyDisconnects: EarlyDisconnects
}

export function createLimits({ clock }: ComposeContext, { lookups }: Database): Limits {
  const readAccount = (customerId: string) => readBalance(lookups, customerId)
  return {
    readAccount,
    windows: createWindowView({
      clock,
      read: async (customerId, atMs) => windowCounts(await readAccount(customerId), atMs),
    }),
    earlyDisconnects: createEarlyDisconnects({ freePerDay: 20, freeSpendBps: 200n, clock }),
  }
}
