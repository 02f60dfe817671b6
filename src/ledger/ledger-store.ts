import type { AccountLimits } from '../domain/caller.ts'
import type { Nanos } from '../domain/money.ts'
import type { WindowCounts } from '../domain/windows.ts'
import type { Admission, KeySpend, RefusalCode } from './leases/admission.ts'

/**
 * The database as the money code sees it. PostgreSQL does it in production (postgres-store.ts, over migrations/0002_money.sql); the
 * simulator has it in memory, with a network in between. Each call is one transaction. A call that rejects may have happened or not,
 * unless its error says otherwise; every call may be sent again.
 */
export interface LedgerStore {
  registerNode(nodeId: string): Promise<void>
  /** Keeps the node alive for another NODE_TTL_MS. */
  heartbeat(nodeId: string): Promise<Heartbeat>
  retireNode(nodeId: string): Promise<void>
  /** Declares nodes dead and ends the leases of dead ones; returns how many. */
  reclaim(options: ReclaimOptions): Promise<number>
  /** One verdict per request, in any order. Rejects with NodeFenced when the node is not alive; then nothing happened. */
  admit(nodeId: string, requests: readonly LeaseRequest[]): Promise<LeaseVerdict[]>
  /** Takes settlement records with separators between them, see settlement-record.ts. The effect by request id for what did not go as asked. */
  settle(nodeShard: number, settlements: Buffer): Promise<Map<string, SettleEffect>>
  /** Folds bulk leases and takes back what their node does not need. */
  handBack(returns: readonly LeaseReturn[]): Promise<void>
  /** Ends strict leases without a usage row: their requests never ran. Answers the ids that were found. */
  release(leaseIds: readonly string[]): Promise<Set<string>>
}

export interface Heartbeat {
  /** False when the node had been declared dead: its leases were taken from it, for good. */
  readonly isAlive: boolean
  /** Bulk leases whose unused part somebody else could use. */
  readonly recalled: readonly string[]
}

export interface ReclaimOptions {
  /** The shard of usage_hour and usage_day of the node that does the work. */
  readonly nodeShard: number
  /** How long after its expiry a node is declared dead, and how long a restarted PostgreSQL waits for heartbeats to come back. Default 60,000. */
  readonly graceMs?: number
  /** Nodes known to be dead, so that there is nothing to wait for: the lock on their journal proves it. */
  readonly deadNodes?: readonly string[]
  /** Every node but this one is known to be dead: the lock on an embedded PostgreSQL proves it. */
  readonly onlyNodeAlive?: string
  /** Aborted, it leaves the customers that are left to another time. */
  readonly signal?: AbortSignal
}

/** Either a request that asks to run, or a node that asks for a bulk lease. */
export type LeaseRequest = Admission | BulkRequest

export interface BulkRequest {
  readonly leaseId: string
  readonly customerId: string
  readonly limits: AccountLimits
  /** The most that is of use. */
  readonly wantNanos: Nanos
  /** Nothing is granted when less than this is free. */
  readonly floorNanos: Nanos
  /** How many requests it is to admit at most. */
  readonly slots: number
}

export type LeaseVerdict =
  | { readonly item: number; readonly kind: 'no_account' | 'no_bulk' }
  | { readonly item: number; readonly kind: 'counted'; readonly windows: WindowCounts }
  | {
      readonly item: number
      readonly kind: 'granted'
      readonly heldNanos: Nanos
      /** Null for a strict lease. */
      readonly slots: number | null
      readonly windows: WindowCounts
      /** By the clock that the windows follow. */
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
      readonly windows: WindowCounts
      readonly databaseNowMs: number
      /** Bulk leases of other nodes hold something that could cure it; they are asked to hand it back. */
      readonly isHeldElsewhere: boolean
      /** Alive, this one among them. */
      readonly nodes: number
    }

/** What came of a settlement that did not go exactly as asked; see settle_batch in migrations/0002_money.sql. */
export type SettleEffect = 'duplicate' | 'clamped' | 'late' | 'written_off' | 'no_account' | 'fenced'

export interface LeaseReturn {
  readonly leaseId: string
  /** What running and unsettled requests still need of it; null closes the lease. */
  readonly keepNanos: Nanos | null
  readonly slotsUsed: number
}

/** The node was declared dead and its leases taken from it: it has to register anew, under another id. */
export class NodeFenced extends Error {
  constructor(nodeId: string) {
    super(`node ${nodeId} was declared dead`)
    this.name = 'NodeFenced'
  }
}

/** How long a node counts as alive after a heartbeat, how often it sends one, and how long after sending the last good one it trusts its leases. */
export const NODE_TTL_MS = 15_000
export const HEARTBEAT_MS = 1_000
export const SELF_FENCE_MS = 12_000
