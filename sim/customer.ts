import type { Nanos } from '../src/base/domain/money.ts'
import type { Admission } from '../src/money/ledger/leases/admission.ts'

/** A customer with its limits and the credit it bought. */
export interface Customer {
  readonly customerId: string
  readonly limits: Admission['limits']
  creditNanos: Nanos
}
