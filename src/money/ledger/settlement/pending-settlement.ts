import type { Nanos } from '../../../base/domain/money.ts'
import type { LinkedItem } from '../../../base/runtime/collections.ts'
import type { JournalEntry } from '../journal/journal.ts'
import type { BulkLease } from '../leases/bulk-lease.ts'
import type { Settlement } from './settlement.ts'
import type { KeptText } from './text-arena.ts'

/**
 * A settlement that is not committed yet. Kept small: thousands wait at a time, and everything it references
 * lives until the commit.
 *
 * It is awaited until its caller is answered: the record is in the journal, or committed, or void. Only an awaited
 * settlement may be voided. All others are of answers that their clients have, so they are charged however long
 * PostgreSQL takes: those in the journal, and those that are settled again, which no caller awaits.
 */
export class PendingSettlement implements LinkedItem<PendingSettlement> {
  readonly requestId: string
  readonly customerId: string
  /** Replaced when the lease is gone. */
  leaseId: string
  /** Replaced when the settlement is voided, or when its lease is gone. */
  record: KeptText
  /** The bulk lease that counts the charge as not committed. Undefined when none does. */
  lease: BulkLease | undefined
  readonly #chargedNanos: Nanos
  readonly sinceMs: number
  /** Its record in this node's journal. */
  written: JournalEntry | undefined = undefined
  /** Called when a settlement that is made again is committed or given up. Undefined for a first settlement. */
  onEnded: (() => void) | undefined = undefined
  older: PendingSettlement | undefined = undefined
  newer: PendingSettlement | undefined = undefined
  isListed = false
  #caller: SettlementCaller | undefined = undefined

  constructor(
    { requestId, customerId, leaseId }: Settlement,
    record: KeptText,
    lease: BulkLease | undefined,
    chargedNanos: Nanos,
    sinceMs: number,
  ) {
    this.requestId = requestId
    this.customerId = customerId
    this.leaseId = leaseId
    this.record = record
    this.lease = lease
    this.#chargedNanos = chargedNanos
    this.sinceMs = sinceMs
  }

  /** `answer` will answer this caller. */
  awaitFor(caller: SettlementCaller): void {
    this.#caller = caller
  }

  get isAwaited(): boolean {
    return this.#caller !== undefined
  }

  /** Informs its bulk lease that the charge is committed, or never will be. */
  leaveLease(): void {
    this.lease?.settle(this.#chargedNanos)
    this.lease = undefined
  }

  /** Resolves the caller, or rejects it when there is an error. Only the first call counts. */
  answer(error?: unknown): void {
    const caller = this.#caller
    // The caller must not be kept in memory until the commit.
    this.#caller = undefined
    if (error === undefined) caller?.resolve()
    else caller?.reject(error)
  }
}

/** The request that waits for its charge to be safe. */
export interface SettlementCaller {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}
