import { randomUUID } from 'node:crypto'
import { addCustomer } from '../../src/accounts/customers.ts'
import { issueKey } from '../../src/auth/keys.ts'
import { type Pool, type Sql, transaction } from '../../src/db/pool.ts'
import type { AccountLimits } from '../../src/domain/caller.ts'
import { costNanos, type TokenPrice } from '../../src/domain/money.ts'
import { openAccount } from '../../src/ledger/accounts/open-account.ts'
import { PROMPT_TOKENS } from './model-server.ts'

export const USD = 1_000_000_000n

/** A customer and all its requests. */
export interface ChaosCustomer {
  readonly customerId: string
  readonly key: string
  readonly creditNanos: bigint
  readonly limits: AccountLimits
  /** In sending order. */
  readonly sent: Sent[]
}

/** One request as its client saw it. */
export interface Sent {
  /** Number of the request among those of its customer, from 1. */
  readonly tag: number
  readonly node: string
  readonly model: ModelName
  readonly stream: boolean
  /** From the header of the answer; null without an answer. */
  requestId: string | null
  ending: Ending | 'running'
  /** Error code of the answer or of the error chunk of a stream. */
  errorCode: string | null
  retryAfterS: number | null
  /** The stream delivered its last word and finish reason; only `[DONE]` may be missing. */
  hasFullContent: boolean
  /** Time of performance.now(). */
  endedAtMs: number
}

/**
 * `complete`: the whole answer arrived. `refused`: an error status. `failed`: a stream that ended with an error chunk. `cut`: the connection broke
 * during the answer. `unanswered`: it broke before a status line. `unsent`: the connection was refused.
 */
export type Ending = 'complete' | 'refused' | 'failed' | 'cut' | 'unanswered' | 'unsent'

/** The models and their prices. `penny` has no input price, so a hold of 1,000 tokens is exactly one cent. `expensive` holds a dollar. */
export const prices = {
  chaos: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
  penny: { inputPicoPerToken: 0n, outputPicoPerToken: 10_000_000n },
  expensive: { inputPicoPerToken: 0n, outputPicoPerToken: 250_000_000n },
} as const satisfies Record<string, TokenPrice>
export type ModelName = keyof typeof prices

/** The `max_tokens` of requests. A customer sends at most this many requests, since the tag is the number of charged tokens. */
export const maxTokensOf: Readonly<Record<ModelName, number>> = { chaos: 4_000, penny: 1_000, expensive: 4_000 }

/** The usage of a request. It equals the tag, so that a charge identifies its request; `penny` requests use their full hold. */
export function outputTokensOf({ model, tag }: Pick<Sent, 'model' | 'tag'>): number {
  return model === 'penny' ? maxTokensOf.penny : tag
}

/** The charge of a request, if it is charged. */
export function chargeOf(request: Pick<Sent, 'model' | 'tag'>): bigint {
  return costNanos(prices[request.model], PROMPT_TOKENS, outputTokensOf(request))
}

export const unlimited: AccountLimits = {
  requestsPerMinute: 1_000_000,
  requestsPerDay: 1_000_000,
  dailySpendCapNanos: 1_000_000_000_000n,
}

/** Creates a customer with exactly this credit, its own limits and one key. */
export async function openCustomer(
  pool: Pool,
  creditNanos: bigint,
  limits: Partial<AccountLimits> = {},
): Promise<ChaosCustomer> {
  const all = { ...unlimited, ...limits }
  return await transaction(pool, async sql => {
    const email = `${randomUUID()}@example.com`
    const { customerId } = (await addCustomer(sql, { email, accountTier: 'free' }))!
    await openAccount(sql, customerId, creditNanos)
    await sql.query(
      'UPDATE customer SET requests_per_minute = $2, requests_per_day = $3, daily_spend_cap_nanos = $4 WHERE customer_id = $1',
      [customerId, all.requestsPerMinute, all.requestsPerDay, all.dailySpendCapNanos],
    )
    await openWindowsAhead(sql, customerId)
    const { key } = await issueKey(sql, { customerId, name: 'chaos' })
    return { customerId, key, creditNanos, limits: all, sent: [] }
  })
}

/** Starts the windows ahead of PostgreSQL's clock, so that neither the minute nor the day ends during a scenario. */
export async function openWindowsAhead(sql: Sql, customerId: string): Promise<void> {
  await sql.query(
    `UPDATE balance SET minute = date_trunc('minute', now(), 'UTC') + interval '1 minute', day = (now() AT TIME ZONE 'UTC')::date + 1
     WHERE customer_id = $1`,
    [customerId],
  )
}
