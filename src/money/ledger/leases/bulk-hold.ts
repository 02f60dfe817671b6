import type { Hold } from '../../../base/domain/handoff.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { BulkLease } from './bulk-lease.ts'
import type { CustomerLeases } from './customer-leases.ts'

/**
 * The hold of a request that a bulk lease admitted. It refers to its lease and its customer, because a look-up by id costs
 * half a microsecond when thousands of customers are active.
 */
export class BulkHold implements Hold {
  readonly leaseId: string
  readonly nanos: Nanos
  readonly isOpen = true
  readonly lease: BulkLease
  readonly customer: CustomerLeases

  constructor(lease: BulkLease, customer: CustomerLeases, nanos: Nanos) {
    this.leaseId = lease.leaseId
    this.nanos = nanos
    this.lease = lease
    this.customer = customer
  }
}
