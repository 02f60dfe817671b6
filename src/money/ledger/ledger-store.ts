import type { AccountLimits } from '../../base/domain/caller.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import type { Admission, KeySpend, RefusalCode } from './leases/admission.ts'

/**
 * The database as the money code sees it. In production it is PostgreSQL (postgres-store.ts and
 * sql/functions/money); the simulator has a store in memory behind a simulated network. Each call is one
 * transaction. A call that rejects may or may not have been committed, unless its error excludes that. Every call
 * may be sent again.
 */
export interface LedgerStore {
  registerNode(nodeId: string): Promise<void>
  /** Stores the number of a heartbeat, counted by the node from 1, and reads the numbers of the other nodes. */
  heartbeat(nodeId: string, number: number): Promise<Heartbeat>
  retireNode(nodeId: string): Promise<void>
  /** Declares nodes dead and ends the leases of dead nodes. Returns the number of leases. */
  reclaim(options: ReclaimOptions): Promise<number>
  /**
   * Returns one verdict per request, in any order. Rejects with NodeFenced, without any effect, when the node
   * is not alive. With `skipsLocked`, requests get the verdict `locked` when another session has locked the balance.
   * Otherwise the call waits for it.
   */
  admit(nodeId: string, requests: readonly LeaseRequest[], skipsLocked?: boolean): Promise<LeaseVerdict[]>
  /**
   * Settles records with separators between them: see settlement.ts. Returns, by request id, the effects of
   * the settlements that were not committed as requested. `skipsLocked`: as in `admit`, with the effect `locked`.
   */
  settle(nodeShard: number, settlements: Buffer, skipsLocked?: boolean): Promise<Map<string, SettleEffect>>
  /**
   * Folds bulk leases and takes back what their node does not need. Returns the ids of the leases that another
   * session has locked: nothing was done for them. `skipsLocked`: as in `admit`, for the balances.
   */
  handBack(returns: readonly LeaseReturn[], skipsLocked?: boolean): Promise<ReadonlySet<string>>
  /**
   * Notes how much of this node's bulk leases is used, for the reports of other nodes. Returns the leases for which
   * nothing was done, because another session has locked them.
   */
  noteUse(uses: readonly LeaseUse[]): Promise<ReadonlySet<string>>
  /** Returns the windows of customers as this node knows them, by customer id. Without those that have no account. */
  windowsOf(nodeId: string, customerIds: readonly string[]): Promise<ReadonlyMap<string, StoredWindows>>
  /** Whether all of these requests have a usage row that does not just presume how they ended. */
  areSettled(requests: readonly { readonly customerId: string; readonly requestId: string }[]): Promise<boolean>
  /** Returns the open leases of the node. */
  leasesOf(nodeId: string): Promise<OpenLease[]>
  /**
   * Ends strict leases of requests that never ran, without a usage row. Returns what happened to the leases that
   * existed. `locked`: another session has locked the balance, and nothing was done.
   */
  release(leaseIds: readonly string[]): Promise<ReadonlyMap<string, 'released' | 'locked'>>
}

export interface Heartbeat {
  /** False when the node was declared dead. Its leases are reclaimed and do not come back. */
  readonly isAlive: boolean
  /** The number that was stored before. PostgreSQL lost transactions when it is lower than one that was confirmed. */
  readonly before: number
  /** Bulk leases with an unused part that is needed elsewhere. */
  readonly recalled: readonly string[]
  /** The heartbeats of all other live nodes. */
  readonly others: readonly NodeHeartbeats[]
  /** Whether leases of dead nodes may be open. */
  readonly hasDeadNodes: boolean
}

export interface NodeHeartbeats {
  readonly nodeId: string
  /** The number of its latest heartbeat. */
  readonly heartbeats: number
}

export interface OpenLease {
  readonly leaseId: string
  readonly isBulk: boolean
}

export interface ReclaimOptions {
  /** The shard of usage_hour and usage_day that the calling node writes. */
  readonly nodeShard: number
  /** Nodes that are declared dead, unless they have sent more heartbeats than these: see node-watch.ts. */
  readonly silentNodes?: readonly NodeHeartbeats[]
  /** Nodes that are declared dead. The lock on their journal proves that they died. */
  readonly deadNodes?: readonly string[]
  /** Every node except this one is declared dead. The lock on an embedded PostgreSQL proves that they died. */
  readonly onlyNodeAlive?: string
  /** When it aborts, the remaining customers are left to the next call. */
  readonly signal?: AbortSignal
}

/** A request that asks to run, or a node that asks for a bulk lease. */
export type LeaseRequest = Admission | BulkRequest

export interface BulkRequest {
  readonly leaseId: string
  readonly customerId: string
  readonly limits: AccountLimits
  /** The largest useful amount. */
  readonly wantNanos: Nanos
  /** Nothing is granted when less than this is free. */
  readonly floorNanos: Nanos
  /** The largest number of requests the lease may admit. */
  readonly slots: number
}

/**
 * The windows of a customer, as the database has them and one node knows them. `minuteUsed` and `dayUsed` are the
 * requests made, without those that bulk leases of this node served.
 */
export interface StoredWindows extends WindowCounts {
  /** The open bulk leases of this node. */
  readonly ownLeases: readonly string[]
  /** What counts against the limits: the requests made, and the slots of open bulk leases. */
  readonly minuteCounted: number
  readonly dayCounted: number
}

/** How much of a bulk lease is used. */
export interface LeaseUse {
  readonly leaseId: string
  readonly slotsUsed: number
  /** Held by running requests, or charged and not committed. */
  readonly owedNanos: Nanos
}

export type LeaseVerdict =
  | { readonly item: number; readonly kind: 'no_account' | 'no_bulk' | 'locked' }
  | { readonly item: number; readonly kind: 'counted'; readonly windows: StoredWindows }
  | {
      readonly item: number
      readonly kind: 'granted'
      readonly heldNanos: Nanos
      /** Null for a strict lease. */
      readonly slots: number | null
      /** What the customer had before the grant: the balance that no lease holds, and the rest of the daily cap. */
      readonly freeNanos: Nanos
      readonly capLeftNanos: Nanos
      /** How many nodes are alive, including this one. */
      readonly nodes: number
      readonly windows: StoredWindows
      /** PostgreSQL's time, which the windows follow, epoch ms. */
      readonly databaseNowMs: number
    }
  | {
      readonly item: number
      readonly kind: 'refused'
      readonly code: RefusalCode
      readonly postedNanos: Nanos
      readonly freeNanos: Nanos
      readonly capLeftNanos: Nanos
      readonly key: KeySpend | null
      readonly member: KeySpend | null
      readonly windows: StoredWindows
      readonly databaseNowMs: number
      /** Bulk leases of other nodes hold something that would allow the request. They were recalled. */
      readonly isHeldElsewhere: boolean
      /** How many nodes are alive, including this one. */
      readonly nodes: number
    }

/**
 * The outcome of a settlement that was not committed as requested. See settle_batch in
 * sql/functions/money/settle_batch.sql.
 */
export type SettleEffect =
  | 'duplicate'
  | 'clamped'
  | 'late'
  | 'written_off'
  | 'no_account'
  | 'fenced'
  | 'locked'
  | 'archived'

export interface LeaseReturn {
  readonly leaseId: string
  /** What running and uncommitted requests still need. Null closes the lease. */
  readonly keepNanos: Nanos | null
  readonly slotsUsed: number
}

/** The node was declared dead and its leases were reclaimed. It must register again under another id. */
export class NodeFenced extends Error {
  constructor(nodeId: string) {
    super(`node ${nodeId} was declared dead`)
    this.name = 'NodeFenced'
  }
}

/** How often a node sends a heartbeat. */
export const HEARTBEAT_MS = 1_000
/** How long a node trusts its leases after it sent the last successful heartbeat. */
export const SELF_FENCE_MS = 12_000
/** After this silence the Idempotency-Keys of a node are free for another request. Its leases stay. */
export const KEYS_FREE_AFTER_MS = 15_000
/**
 * After this silence a node is declared dead and its leases are ended. Far longer than SELF_FENCE_MS, so that a node
 * that was paused or cut off for a minute still finds its leases. Short enough that the holds of a dead node are free
 * 75 s after its last heartbeat.
 */
export const DEAD_AFTER_MS = 65_000
