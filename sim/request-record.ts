import type { Nanos } from '../src/domain/money.ts'
import type { Admission } from '../src/ledger/leases/admission.ts'
import type { Settlement } from '../src/ledger/settlement/settlement.ts'
import type { Customer } from './customer.ts'
import type { Volume } from './gateway.ts'
import type { OncePlan } from './plan.ts'
import type { Process } from './process.ts'

/** A request as its client saw it. */
export interface RequestRecord {
  readonly admission: Admission
  readonly customer: Customer
  readonly process: Process
  readonly volume: Volume
  /** `cut`: the connection broke. `voided`: told that the answer is free. `answered`: the last byte arrived. */
  state: 'asked' | 'refused' | 'failed' | 'counted' | 'running' | 'settling' | 'answered' | 'voided' | 'cut'
  leaseId: string | undefined
  heldNanos: Nanos
  settlement: Settlement | undefined
  readonly once: OncePlan | null
  /** It was let run by its Idempotency-Key, and has not come to its end. */
  holdsKey: boolean
  /** Told that another one with the same key is running. */
  isKeyInUse: boolean
  /** What its client was sent, with an Idempotency-Key. */
  sentText: string | undefined
  readonly askedAtMs: number
  voidedAtMs: number
  /** Of the journal's disk, when the answer ended. */
  lossesAtAnswer: number
}
