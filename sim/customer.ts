import type { Nanos } from '../src/domain/money.ts'
import type { Admission } from '../src/ledger/leases/admission.ts'

/** A customer as whoever sold the credit knows it. */
export interface Customer {
  readonly customerId: string
  readonly limits: Admission['limits']
  creditNanos: Nanos
}
