import type { Nanos } from '../../domain/money.ts'
import type { LinkedItem } from '../../runtime/linked-set.ts'
import type { JournalEntry } from '../journal/journal.ts'
import type { BulkLease } from '../leases/bulk-lease.ts'
import type { Settlement } from './settlement.ts'
import type { KeptText } from './text-arena.ts'

/**
 * A settlement that is not committed yet. Kept small: thousands wait at a time, and everything it references
 * lives until the commit.
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
  /** Whether the caller was answered. */
  isAnswered = false
  /** Its record in this node's journal. */
  written: JournalEntry | undefined = undefined
  /** Drops the record it was recovered from. */
  forget: (() => void) | undefined = undefined
  older: PendingSettlement | undefined = undefined
  newer: PendingSettlement | undefined = undefined
  isListed = false
  #resolve: () => void
  #reject: (error: unknown) => void

  constructor(
    { requestId, customerId, leaseId }: Settlement,
    record: KeptText,
    lease: BulkLease | undefined,
    chargedNanos: Nanos,
    sinceMs: number,
    resolve: () => void,
    reject: (error: unknown) => void,
  ) {
    this.requestId = requestId
    this.customerId = customerId
    this.leaseId = leaseId
    this.record = record
    this.lease = lease
    this.#chargedNanos = chargedNanos
    this.sinceMs = sinceMs
    this.#resolve = resolve
    this.#reject = reject
  }

  /** Informs its bulk lease that the charge is committed, or never will be. */
  leaveLease(): void {
    this.lease?.settle(this.#chargedNanos)
    this.lease = undefined
  }

  /** Resolves the caller, or rejects it when there is an error. Only the first call counts. */
  answer(error?: unknown): void {
    if (this.isAnswered) return
    this.isAnswered = true
    if (error === undefined) this.#resolve()
    else this.#reject(error)
    // The caller must not be kept in memory until the commit.
    this.#resolve = noop
    this.#reject = noop
  }
}

const noop = () => {}
