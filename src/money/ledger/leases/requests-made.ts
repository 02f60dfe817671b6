import type { WindowCounts } from '../../../base/domain/windows.ts'
import type { StoredWindows } from '../ledger-store.ts'
import type { BulkLease } from './bulk-lease.ts'
import type { CustomerLeases } from './customer-leases.ts'

/** For this long the database may return a lease that is closed, in an answer that was sent before. */
const CLOSED_MS = 10_000

/**
 * Counts the requests that customers have made in their windows: those that the database knows, and those that leases
 * of this node have served. The database counts all slots of a lease, since no limit may be exceeded; a customer sees
 * the requests that it has made.
 */
export class RequestsMade {
  readonly #customers: ReadonlyMap<string, CustomerLeases>
  readonly #leases: ReadonlyMap<string, BulkLease>
  readonly #monotonicMs: () => number
  /** Leases that no longer exist in the database, oldest first. */
  readonly #closed = new Map<string, { readonly lease: BulkLease; readonly atMs: number }>()

  constructor(
    customers: ReadonlyMap<string, CustomerLeases>,
    leases: ReadonlyMap<string, BulkLease>,
    monotonicMs: () => number,
  ) {
    this.#customers = customers
    this.#leases = leases
    this.#monotonicMs = monotonicMs
  }

  /** Adds the requests that leases of this node served. */
  of(windows: StoredWindows): WindowCounts {
    let { minuteUsed, dayUsed } = windows
    const { ownLeases, minuteEndsAtEpochMs, dayEndsAtEpochMs } = windows
    for (const leaseId of ownLeases) {
      // Unknown when the answer to the grant is not read yet: it has served nothing.
      const lease = this.#leases.get(leaseId) ?? this.#closed.get(leaseId)?.lease
      if (lease?.minuteEndsAtEpochMs === minuteEndsAtEpochMs) minuteUsed += lease.slotsUsed
      if (lease?.dayEndsAtEpochMs === dayEndsAtEpochMs) dayUsed += lease.slotsUsed
    }
    return { minuteUsed, dayUsed, minuteEndsAtEpochMs, dayEndsAtEpochMs }
  }

  /**
   * Does the same, and notes the windows for the next requests of the customer. `sentAtMs` is when a statement was sent
   * that is not an admission: windows that an admission has noted since are newer.
   */
  note(customerId: string, windows: StoredWindows, sentAtMs: number = Number.POSITIVE_INFINITY): WindowCounts {
    const made = this.of(windows)
    const customer = this.#customers.get(customerId)
    if (customer !== undefined && customer.windowsAtMs <= sentAtMs) {
      customer.windowsAtMs = this.#monotonicMs()
      const { serving } = customer
      if (serving !== undefined && windows.ownLeases.includes(serving.leaseId)) serving.noteWindows(made)
    }
    return made
  }

  noteClosed(lease: BulkLease): void {
    this.#closed.set(lease.leaseId, { lease, atMs: this.#monotonicMs() })
  }

  forgetClosed(): void {
    const untilMs = this.#monotonicMs() - CLOSED_MS
    for (const [leaseId, { atMs }] of this.#closed) {
      if (atMs > untilMs) return
      this.#closed.delete(leaseId)
    }
  }
}
