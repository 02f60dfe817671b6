import type { ChatJob } from '../domain/chat-job.ts'
import { ApiError } from '../domain/errors.ts'
import { type Nanos, usdText } from '../domain/money.ts'
import { retryAfterS } from '../domain/windows.ts'
import type { Admission, AdmissionResult } from '../ledger/admission.ts'

type Refused = Extract<AdmissionResult, { kind: 'refused' }>

/** Pure: the 429 or 402 for a refused admission, with the figures that help: limits, balance, need, and what would fit. */
export function refusal(
  refused: Refused,
  admission: Admission,
  job: ChatJob,
  affordableTokens: number,
  nowMs: number,
): ApiError {
  const { limits } = admission
  const { windows } = refused
  const need = usdText(admission.hold?.floorNanos ?? 0n)
  const fits = affordableTokens >= 1 ? ` It can afford max_tokens ${affordableTokens}.` : ''
  const param = job.maxTokens === null ? undefined : 'max_tokens'
  switch (refused.code) {
    case 'rate_limit_exceeded':
      return new ApiError('rate_limit_exceeded', {
        message: `Limit of ${limits.requestsPerMinute} requests per minute reached. Retry after the minute ends, or ask for a higher account tier.`,
        retryAfterS: retryAfterS(windows.minuteEndsAtEpochMs, nowMs),
      })
    case 'daily_limit_exceeded':
      return new ApiError('daily_limit_exceeded', {
        message: `Limit of ${limits.requestsPerDay} requests per day reached. It starts again at 00:00 UTC; a higher account tier raises it.`,
        retryAfterS: retryAfterS(windows.dayEndsAtEpochMs, nowMs),
      })
    case 'insufficient_credits':
      return new ApiError('insufficient_credits', {
        param,
        message: `The balance is ${usdText(refused.postedNanos)} USD and this request may cost ${need} USD.${fits} Add credit or lower max_tokens.`,
      })
    case 'in_flight_budget':
      return new ApiError('in_flight_budget', {
        param,
        message: `The balance is ${usdText(refused.postedNanos)} USD; your running requests hold all but ${usdText(budgetNanos(refused))} USD of it or of the daily spend cap, and this request may cost ${need} USD.${fits} Retry when they have finished, or lower max_tokens.`,
        retryAfterS: 3,
      })
    case 'daily_spend_cap_reached':
      return new ApiError('daily_spend_cap_reached', {
        message: `The daily spend cap is ${usdText(limits.dailySpendCapNanos)} USD, of which ${usdText(refused.capLeftNanos)} USD are left, and this request may cost ${need} USD.${fits} The cap starts again at 00:00 UTC; the operator can raise it.`,
      })
  }
}

/** What may be held now. */
export function budgetNanos({ freeNanos, capLeftNanos }: Pick<Refused, 'freeNanos' | 'capLeftNanos'>): Nanos {
  return freeNanos < capLeftNanos ? freeNanos : capLeftNanos
}
