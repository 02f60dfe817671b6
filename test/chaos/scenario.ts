import type { ChaosCustomer } from './customer.ts'
import type { ChaosWorld } from './world.ts'

/** A fault, what it is done to, and what must hold. Throws, or names problems, where something does not. */
export interface Scenario {
  readonly name: string
  /** Breaks what all nodes share: nothing else may be under way. */
  readonly alone?: boolean
  run(world: ChaosWorld): Promise<Faulted>
}

/** What a scenario leaves behind: its fault is over, its requests have ended, its books may still have to converge. */
export interface Faulted {
  readonly customers: readonly ChaosCustomer[]
  /** What it saw that must not be; none when all is well. */
  readonly problems: readonly string[]
  /** A few words for the table. */
  readonly note: string
  /** Waits until the books have converged and checks them. Other scenarios may run meanwhile. */
  settled(): Promise<Verdict>
}

export interface Verdict {
  readonly convergedMs: number
  readonly problems: readonly string[]
  readonly requests: number
  /** Charged, and the last bytes never arrived. */
  readonly window: number
  /** Answered, and not charged. */
  readonly free: number
}
