import { type Admission, type AdmissionResult, isRefusedByWindow } from './admission.ts'

type Refusal = Extract<AdmissionResult, { kind: 'refused' }>

/**
 * Remembers customers that have used up their minute or day, so that further requests cost no round trip
 * until the minute ends.
 */
export interface ExhaustedWindows {
  /** The refusal to repeat. Undefined when the window is over, or when the limit was raised. */
  refuse(admission: Admission): Refusal | undefined
  /**
   * `sentAtMs` is the monotonic time before the statement was sent, `databaseNowMs` PostgreSQL's time of the
   * decision.
   */
  remember(admission: Admission, refusal: Refusal, sentAtMs: number, databaseNowMs: number): void
}

const CUSTOMERS_MAX = 10_000

export function createExhaustedWindows(monotonicMs: () => number): ExhaustedWindows {
  const byCustomer = new Map<string, { refusal: Refusal; untilMs: number }>()

  return {
    refuse({ customerId, limits }) {
      const known = byCustomer.get(customerId)
      if (known === undefined) return undefined
      const { code, windows } = known.refusal
      const isExhausted =
        code === 'rate_limit_exceeded'
          ? windows.minuteUsed >= limits.requestsPerMinute
          : windows.dayUsed >= limits.requestsPerDay
      if (isExhausted && monotonicMs() < known.untilMs) return known.refusal
      byCustomer.delete(customerId)
      return undefined
    },
    remember({ customerId }, refusal, sentAtMs, databaseNowMs) {
      if (!isRefusedByWindow(refusal.code)) return
      if (byCustomer.size >= CUSTOMERS_MAX) byCustomer.delete(byCustomer.keys().next().value!)
      // A used-up day is also asked for again each minute, because the refusal reports the count of the minute too.
      // The time is counted from before the statement was sent, so the entry never outlasts the window, whatever the
      // two wall clocks show.
      byCustomer.set(customerId, { refusal, untilMs: sentAtMs + refusal.windows.minuteEndsAtEpochMs - databaseNowMs })
    },
  }
}
