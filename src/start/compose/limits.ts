import type { WindowCounts } from '../../base/domain/windows.ts'
import { readWindows } from '../../money/ledger/accounts/read-windows.ts'
import { createWindowView, noRequests, type WindowView } from '../../money/ledger/leases/rate-windows.ts'
import { createEarlyDisconnects, type EarlyDisconnects } from '../../request/limits/request-limits.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'

/** The rate windows and early disconnects of customers, as known to this node. */
export interface Limits {
  /** Reads the requests that a customer has made, as all nodes know them. */
  readonly readWindows: (customerId: string, atEpochMs: number) => Promise<WindowCounts>
  readonly windows: WindowView
  readonly earlyDisconnects: EarlyDisconnects
}

export function createLimits({ clock }: ComposeContext, { lookups }: Database, { node, ledger }: Money): Limits {
  const read: Limits['readWindows'] = async (customerId, atMs) => {
    const stored = (await readWindows(lookups, node.nodeId, [customerId])).get(customerId)
    return stored === undefined ? noRequests(atMs) : ledger.requestsMade(stored)
  }
  return {
    readWindows: read,
    windows: createWindowView({ clock, read, hasPeers: node.hasPeers }),
    earlyDisconnects: createEarlyDisconnects({ freePerDay: 20, freeSpendBps: 200n, clock }),
  }
}
