import type { ChaosCustomer } from './customer.ts'
import type { ChaosWorld } from './world.ts'

/** A fault, its victims and the checks after it. Throws or returns problems when a check fails. */
export interface Scenario {
  readonly name: string
  /** The fault affects all nodes, so no other scenario may run at the same time. */
  readonly alone?: boolean
  run(world: ChaosWorld): Promise<Faulted>
}

/** The state after a fault: its requests have ended, but the books may still have to converge. */
export interface Faulted {
  readonly customers: readonly ChaosCustomer[]
  /** Descriptions of problems; empty when all is well. */
  readonly problems: readonly string[]
  /** A short text for the table. */
  readonly note: string
  /** Waits until the books have converged and checks them. Other scenarios may run at the same time. */
  settled(): Promise<Verdict>
}

export interface Verdict {
  readonly convergedMs: number
  readonly problems: readonly string[]
  readonly requests: number
  /** Number of charged answers without their last bytes. */
  readonly truncated: number
  /** Number of complete answers without a charge. */
  readonly free: number
}
