import { randomUUID } from 'node:crypto'
import { type Pool, type Sql, transaction } from '../../src/base/db/pool.ts'
import type { AccountLimits } from '../../src/base/domain/caller.ts'
import type { Feature } from '../../src/base/domain/chat-job.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { costNanos, type TokenPrice } from '../../src/base/domain/money.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import type { ClientName } from '../harness/client-wires.ts'
import type { ReportedTokens } from '../harness/scripted-vendors.ts'

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
  readonly client: ClientName
  readonly model: ModelName
  readonly stream: boolean
  /** The words of its answer. */
  readonly words: number
  /** From the header of the answer; null without an answer. */
  requestId: string | null
  ending: Ending | 'running'
  /** Error code of the answer or of the error event of a stream. */
  errorCode: string | null
  /** Why no client of its dialect can read the answer or the error; null if one can. */
  malformed: string | null
  retryAfterS: number | null
  /** The stream delivered its last word, and at chat its finish reason; only its end may be missing. */
  hasFullContent: boolean
  /** Time of performance.now(). */
  endedAtMs: number
}

/**
 * `complete`: the whole answer arrived. `refused`: an error status. `failed`: a stream that ended with an error event. `cut`: the connection broke
 * during the answer. `unanswered`: it broke before a status line. `unsent`: the connection was refused. `left`: the client closed it.
 */
export type Ending = 'complete' | 'refused' | 'failed' | 'cut' | 'unanswered' | 'unsent' | 'left'

const standardPrice: TokenPrice = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n }

/**
 * The models and their prices. Those of `chaos-...` have servers of other dialects or tasks. `penny` has no input price, so a hold of 1,000 tokens
 * is exactly one cent. `expensive` holds a dollar.
 */
export const models = {
  chaos: { price: standardPrice },
  'chaos-responses': { price: standardPrice, speaks: ['responses'] },
  'chaos-messages': { price: standardPrice, speaks: ['messages'] },
  'chaos-gemini': { price: standardPrice, speaks: ['gemini'] },
  'chaos-converse': { price: standardPrice, speaks: ['converse'] },
  'chaos-text': { price: standardPrice, features: ['completions'] },
  'chaos-vectors': { price: standardPrice, features: ['embeddings'] },
  'chaos-ranks': { price: standardPrice, features: ['rerank'] },
  penny: { price: { inputPicoPerToken: 0n, outputPicoPerToken: 10_000_000n } },
  expensive: { price: { inputPicoPerToken: 0n, outputPicoPerToken: 250_000_000n } },
} as const satisfies Record<string, { price: TokenPrice; speaks?: readonly Dialect[]; features?: readonly Feature[] }>
export type ModelName = keyof typeof models

/** An endpoint of the gateway, and the model that it asks for. */
export interface Path {
  readonly client: ClientName
  readonly model: ModelName
}

export const plainChat: Path = { client: 'chat', model: 'chaos' }

/** Every endpoint, and every dialect of servers. */
export const paths: readonly Path[] = [
  plainChat,
  { client: 'responses', model: 'chaos' },
  { client: 'messages', model: 'chaos-messages' },
  { client: 'embeddings', model: 'chaos-vectors' },
  { client: 'gemini', model: 'chaos-gemini' },
  { client: 'completions', model: 'chaos-text' },
  { client: 'responses', model: 'chaos-responses' },
  { client: 'messages', model: 'chaos-converse' },
  { client: 'rerank', model: 'chaos-ranks' },
  { client: 'gemini', model: 'chaos' },
  { client: 'chat', model: 'chaos-messages' },
  { client: 'messages', model: 'chaos' },
  { client: 'responses', model: 'chaos-gemini' },
  { client: 'gemini', model: 'chaos-responses' },
  { client: 'chat', model: 'chaos-converse' },
]

/** Whether an endpoint gives streams. */
export function mayStream({ client }: Path): boolean {
  return client !== 'embeddings' && client !== 'rerank'
}

/** The `max_tokens` of requests. A customer sends at most this many requests, since the tag is the number of charged tokens. */
export function maxTokensOf(model: ModelName): number {
  return model === 'penny' ? 1_000 : 4_000
}

/** Reported for the prompt of every request that generates. Below the bound that the gateway computes. */
const PROMPT_TOKENS = 20

/** The usage of a request. A part of it is the tag, so that a charge identifies its request; `penny` requests use their full hold. */
export function tokensOf({ client, model, tag }: Pick<Sent, 'client' | 'model' | 'tag'>): ReportedTokens {
  if (!mayStream({ client, model })) return { input: tag, output: 0 }
  return { input: PROMPT_TOKENS, output: model === 'penny' ? maxTokensOf(model) : tag }
}

/** The charge of a request, if it is charged. */
export function chargeOf(request: Pick<Sent, 'client' | 'model' | 'tag'>): bigint {
  const { input, output } = tokensOf(request)
  return costNanos(models[request.model].price, input, output)
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
