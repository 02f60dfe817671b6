import type { Nanos } from '../src/base/domain/money.ts'
import type { Admission } from '../src/money/ledger/leases/admission.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'
import type { Customer } from './customer.ts'
import type { Volume } from './gateway.ts'
import type { IdempotencyPlan } from './plan.ts'
import type { Process } from './process.ts'

/** A request as its client sees it. */
export interface RequestRecord {
  /** Its hold is known once the prices at its start are. */
  admission: Admission
  readonly customer: Customer
  readonly process: Process
  readonly volume: Volume
  /** `cut`: the connection broke. `voided`: the client was promised a free answer. `answered`: the last byte arrived. */
  state: 'asked' | 'refused' | 'failed' | 'counted' | 'running' | 'settling' | 'answered' | 'voided' | 'cut'
  leaseId: string | undefined
  heldNanos: Nanos
  settlement: Settlement | undefined
  readonly idempotency: IdempotencyPlan | null
  /** The request obtained its Idempotency-Key and has not finished. */
  holdsKey: boolean
  /** The client received the error that another request with the same key is running. */
  isKeyInUse: boolean
  /** The text sent to the client of a request with an Idempotency-Key. */
  sentText: string | undefined
  readonly askedAtMs: number
  voidedAtMs: number
  /** Number of losses of the journal's disk when the answer ended. */
  lossesAtAnswer: number
}
