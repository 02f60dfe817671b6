import type { ChatJob } from '../../base/domain/chat-job.ts'
import { ApiError, type ErrorFacts } from '../../base/domain/errors.ts'
import { fieldNames } from '../../base/domain/field-names.ts'
import { type Nanos, usd, usdText } from '../../base/domain/money.ts'
import { secondsUntilWindowEnd } from '../../base/domain/windows.ts'
import type { Admission, AdmissionResult } from '../../money/ledger/leases/admission.ts'

type Refused = Extract<AdmissionResult, { kind: 'refused' }>

/**
 * Builds the 429 or 402 for a refused admission, with its figures: limits, balance, needed amount and affordable tokens. What
 * is refused is decided in SQL, a 402 by `money_refusal`.
 */
export function refusal(
  refused: Refused,
  admission: Admission,
  job: ChatJob,
  affordableTokens: number,
  nowMs: number,
): ApiError {
  const { limits, keyLimit, memberLimit } = admission
  const { windows, key, member, waitedMs } = refused
  const needNanos = admission.ask?.floorNanos ?? 0n
  const need = usdText(needNanos)
  const fits = affordableTokens >= 1 ? ` You can afford ${fieldNames(job).limit} ${affordableTokens}.` : ''
  const change = changeThatHelps(job, affordableTokens, budgetNanos(refused))
  const { param } = change
  const facts: ErrorFacts = {
    balance_usd: usd(refused.postedNanos),
    available_usd: usd(budgetNanos(refused)),
    needed_usd: usd(needNanos),
    affordable_max_tokens: affordableTokens,
  }
  switch (refused.code) {
    case 'rate_limit_exceeded':
      return new ApiError('rate_limit_exceeded', {
        message: `The limit of ${limits.requestsPerMinute} requests per minute is reached. Retry after the minute ends, or ask for a higher account tier.`,
        retryAfterS: secondsUntilWindowEnd(windows.minuteEndsAtEpochMs, nowMs),
      })
    case 'daily_limit_exceeded':
      return new ApiError('daily_limit_exceeded', {
        message: `The limit of ${limits.requestsPerDay} requests per day is reached. Wait until it resets at 00:00 UTC, or ask for a higher account tier.`,
        facts: { reset_at: new Date(windows.dayEndsAtEpochMs).toISOString() },
        retryAfterS: secondsUntilWindowEnd(windows.dayEndsAtEpochMs, nowMs),
      })
    case 'insufficient_credits':
      return new ApiError('insufficient_credits', {
        param,
        facts,
        message: `The balance is ${usdText(refused.postedNanos)} USD, but this request may cost up to ${need} USD.${fits} ${alternatives(['Add credit', change.what])}.`,
      })
    case 'account_in_debt': {
      const debt = usdText(-refused.postedNanos)
      return new ApiError('account_in_debt', {
        facts: { ...facts, balance_usd: 0, available_usd: 0, debt_usd: usd(-refused.postedNanos) },
        message: `A payment of this account was taken back after it was spent, and ${debt} USD are owed. Add credit of more than that; then requests run again.`,
      })
    }
    case 'in_flight_budget':
      return new ApiError('in_flight_budget', {
        param,
        facts,
        message: `The balance is ${usdText(refused.postedNanos)} USD, but your running requests leave only ${usdText(budgetNanos(refused))} USD of it, of the daily spend cap or of the spend limit of the key or its member, and this request may cost up to ${need} USD.${fits}${waitedText(waitedMs)} ${alternatives([`Retry in ${IN_FLIGHT_RETRY_S} seconds or when they have finished`, change.what])}.`,
        retryAfterS: IN_FLIGHT_RETRY_S,
      })
    case 'daily_spend_cap_reached': {
      const spentNanos = limits.dailySpendCapNanos - refused.capLeftNanos
      const isClosed = limits.dailySpendCapNanos === 0n
      return new ApiError('daily_spend_cap_reached', {
        param,
        facts: {
          ...facts,
          limit_usd: usd(limits.dailySpendCapNanos),
          used_usd: usd(spentNanos),
          reset_at: isClosed ? null : new Date(windows.dayEndsAtEpochMs).toISOString(),
        },
        message: isClosed
          ? 'The daily spend cap is 0 USD, so this account cannot make paid requests. Ask the operator to raise the cap.'
          : `The daily spend cap of ${usdText(limits.dailySpendCapNanos)} USD has ${usdText(refused.capLeftNanos)} USD left, but this request may cost up to ${need} USD.${fits} Wait until the cap resets at 00:00 UTC, or ask the operator to raise it.`,
      })
    }
    case 'key_spend_limit_reached': {
      const limitNanos = keyLimit?.limitNanos ?? 0n
      const spentNanos = key?.spentNanos ?? 0n
      const resetAt = key?.endsAtEpochMs == null ? null : new Date(key.endsAtEpochMs).toISOString()
      return new ApiError('key_spend_limit_reached', {
        param,
        facts: { ...facts, limit_usd: usd(limitNanos), used_usd: usd(spentNanos), reset_at: resetAt },
        message: `The spend limit of this API key is ${usdText(limitNanos)} USD, of which ${usdText(spentNanos)} USD is used, but this request may cost up to ${need} USD.${fits} ${resetText(resetAt)}. ${alternatives(['Use another key', change.what])}.`,
      })
    }
    case 'member_spend_limit_reached': {
      const limitNanos = memberLimit?.limitNanos ?? 0n
      const spentNanos = member?.spentNanos ?? 0n
      const resetAt = member?.endsAtEpochMs == null ? null : new Date(member.endsAtEpochMs).toISOString()
      return new ApiError('member_spend_limit_reached', {
        param,
        facts: { ...facts, limit_usd: usd(limitNanos), used_usd: usd(spentNanos), reset_at: resetAt },
        message: `This API key belongs to ${memberLimit?.email ?? 'a member'} with a spend limit of ${usdText(limitNanos)} USD over all keys, of which ${usdText(spentNanos)} USD is used, but this request may cost up to ${need} USD.${fits} ${resetText(resetAt)}. An owner of the account can raise it under Settings, People.`,
      })
    }
  }
}

/** Running requests usually end within seconds. */
const IN_FLIGHT_RETRY_S = 3

function waitedText(waitedMs: number | undefined): string {
  return waitedMs === undefined ? '' : ` It waited ${(waitedMs / 1000).toFixed(1)} seconds for them.`
}

function resetText(resetAt: string | null): string {
  return resetAt === null ? 'The limit does not reset' : `The limit resets at ${resetAt}`
}

/**
 * Returns what to change in the request so that `budgetNanos` pays for it, and the parameter; null if nothing helps.
 */
function changeThatHelps(
  job: ChatJob,
  affordableTokens: number,
  budgetNanos: Nanos,
): { readonly what: string | null; readonly param?: string } {
  const { maxTokens, choices } = job
  const { input: param, limit } = fieldNames(job)
  if (affordableTokens >= 1) {
    return maxTokens === null ? { what: `send ${limit} ${affordableTokens}` } : { what: `lower ${limit}`, param: limit }
  }
  if (budgetNanos <= 0n) return { what: null }
  // Not even one token fits along with the prompt.
  return choices > 1 ? { what: `lower n or shorten the ${param}`, param: 'n' } : { what: `shorten the ${param}`, param }
}

function alternatives(actions: readonly (string | null)[]): string {
  return actions.filter(action => action !== null).join(' or ')
}

/**
 * Returns the most that may be held now: the smallest of the free balance and what is left of the cap and of
 * the limits of the key and its member.
 */
export function budgetNanos({
  freeNanos,
  capLeftNanos,
  key,
  member,
}: Pick<Refused, 'freeNanos' | 'capLeftNanos' | 'key' | 'member'>): Nanos {
  let leastNanos = freeNanos < capLeftNanos ? freeNanos : capLeftNanos
  for (const limit of [key, member]) if (limit !== null && limit.leftNanos < leastNanos) leastNanos = limit.leftNanos
  return leastNanos
}
