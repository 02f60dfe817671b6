import type { Clock } from '../../../base/runtime/scheduler.ts'

/** What the checks of one answer may take; they run on the event loop, so every other request waits for them. */
export interface CustomerCheckTime {
  /** The time that is left, ms. */
  leftMs(): number
  /** Takes what the checks took, ms. More than an answer may take was a stall of the machine. */
  take(workMs: number): void
}

/** An answer of 100 kB that satisfies its schema takes 5 to 30 ms. */
const CHECK_MS_MAX = 100
/** The part of the event loop that the checks of one customer may hold for long. */
const CUSTOMER_SHARE = 0.05
/** Customers without a debt are forgotten when there are more. */
const CUSTOMERS_MAX = 1_000

/**
 * Limits the checks of each customer: one answer may take 100 ms, many together a twentieth of the time. A schema can be
 * made to take almost any time, and answers are cheap, so a limit for one answer alone stops no customer from holding
 * the event loop with many.
 */
export class CheckTime {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** When the share of a customer has paid for the checks so far. */
  readonly #paidAtMs = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  of(customerId: string): CustomerCheckTime {
    return {
      leftMs: () => CHECK_MS_MAX - this.#debtMs(customerId) * CUSTOMER_SHARE,
      take: workMs => {
        const debtMs = this.#debtMs(customerId) + Math.min(workMs, CHECK_MS_MAX) / CUSTOMER_SHARE
        this.#paidAtMs.set(customerId, this.#clock.monotonicMs() + debtMs)
        if (this.#paidAtMs.size > CUSTOMERS_MAX) this.#forgetPaid()
      },
    }
  }

  #debtMs(customerId: string): number {
    return Math.max(0, (this.#paidAtMs.get(customerId) ?? 0) - this.#clock.monotonicMs())
  }

  #forgetPaid(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [customerId, paidAtMs] of this.#paidAtMs) if (paidAtMs <= nowMs) this.#paidAtMs.delete(customerId)
  }
}
