import { randomUUID } from 'node:crypto'
import { addCustomer } from '../../src/accounts/customers.ts'
import { issueKey } from '../../src/auth/keys.ts'
import { type Pool, type Sql, transaction } from '../../src/db/pool.ts'
import type { AccountLimits } from '../../src/domain/caller.ts'
import { costNanos, type TokenPrice } from '../../src/domain/money.ts'
import { openAccount } from '../../src/ledger/accounts/open-account.ts'
import { PROMPT_TOKENS } from './model-server.ts'

/** Somebody who pays, and everything they saw. */
export interface ChaosCustomer {
  readonly customerId: string
  readonly key: string
  readonly creditNanos: bigint
  readonly limits: AccountLimits
  /** In the order the requests were sent. */
  readonly sent: Sent[]
}

/** One request and what its client saw of it. */
export interface Sent {
  /** The number of this request among those of its customer, from 1. */
  readonly tag: number
  readonly node: string
  readonly model: ModelName
  readonly stream: boolean
  /** From the header of the answer; null when none came. */
  requestId: string | null
  ending: Ending | 'running'
  /** Of the answer, or of the error chunk of a stream. */
  errorCode: string | null
  retryAfterS: number | null
  /** A stream whose last word and finish reason arrived; only the closing `[DONE]` may be missing. */
  contentIsWhole: boolean
  /** By performance.now(). */
  endedAtMs: number
}

/**
 * `whole`: all of it arrived. `refused`: an error status. `failed`: a stream that ended with an error chunk. `cut`: the connection broke in
 * the middle. `unanswered`: it broke before a status line. `unsent`: there was nobody to connect to.
 */
export type Ending = 'whole' | 'refused' | 'failed' | 'cut' | 'unanswered' | 'unsent'

/** The models on sale. `penny` costs its output alone, so that a hold of 1,000 tokens is one cent exactly. `dear` holds a dollar. */
export const prices = {
  chaos: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
  penny: { inputPicoPerToken: 0n, outputPicoPerToken: 10_000_000n },
  dear: { inputPicoPerToken: 0n, outputPicoPerToken: 250_000_000n },
} as const satisfies Record<string, TokenPrice>
export type ModelName = keyof typeof prices

/** What requests ask for. A customer sends at most so many, since no charge is higher. */
export const maxTokensOf: Readonly<Record<ModelName, number>> = { chaos: 4_000, penny: 1_000, dear: 4_000 }

/** The tag is the usage, so that each charge tells which request it is for. Of `penny` all that is held is used. */
export function outputTokensOf({ model, tag }: Pick<Sent, 'model' | 'tag'>): number {
  return model === 'penny' ? maxTokensOf.penny : tag
}

/** What a request is charged when it is charged. */
export function chargeOf(request: Pick<Sent, 'model' | 'tag'>): bigint {
  return costNanos(prices[request.model], PROMPT_TOKENS, outputTokensOf(request))
}

export const unlimited: AccountLimits = {
  requestsPerMinute: 1_000_000,
  requestsPerDay: 1_000_000,
  dailySpendCapNanos: 1_000_000_000_000n,
}

/** A new customer with exactly this credit, limits of its own and one key. */
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

/** The windows begin a moment ahead of PostgreSQL's clock, so that neither minute nor day ends in the middle. */
export async function openWindowsAhead(sql: Sql, customerId: string): Promise<void> {
  await sql.query(
    `UPDATE balance SET minute = date_trunc('minute', now(), 'UTC') + interval '1 minute', day = (now() AT TIME ZONE 'UTC')::date + 1
     WHERE customer_id = $1`,
    [customerId],
  )
}
