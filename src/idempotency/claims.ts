import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import type { Nanos } from '../domain/money.ts'
import type { ProviderKind } from '../domain/offer.ts'
import { isTransient } from '../ledger/is-transient.ts'
import type { LedgerStore } from '../ledger/ledger-store.ts'
import type { Settlement } from '../ledger/settlement.ts'
import { openSecret, sealSecret } from '../market/sealed-secret.ts'

/** A request with an Idempotency-Key that wants to run. */
export interface Claim {
  readonly customerId: string
  readonly keyId: string
  /** The Idempotency-Key. */
  readonly key: string
  /** SHA-256 of the body. */
  readonly bodyHash: Buffer
  readonly requestId: string
  readonly modelId: string
}

export type Claimed =
  /** Run it, then call `finish` or `release`. */
  | { readonly kind: 'mine' }
  /** An earlier one still runs. */
  | { readonly kind: 'running' }
  /** An earlier one was served, or charged: `answer` is what its client was sent, null when that is not kept. */
  | { readonly kind: 'done'; readonly requestId: string; readonly costNanos: Nanos; readonly answer: KeptAnswer | null }
  | { readonly kind: 'other_body' }

/** What a client was sent. */
export interface KeptAnswer {
  /** A whole answer, or the events of a stream. */
  readonly body: string
  readonly servedBy: ServedBy
}

/** What the headers of an answer say of how it came about. */
export interface ServedBy {
  readonly provider: ProviderKind
  readonly hosterId: string | null
  /** What `max_tokens` was lowered to; null when it was not. */
  readonly maxTokens: number | null
}

/** What Idempotency-Keys stand for, in PostgreSQL, for all nodes. */
export interface Claims {
  /** Rejects with `database_unavailable`. */
  claim(claim: Claim): Promise<Claimed>
  /** The request was served or charged: from now on its key stands for this. `answer` is null when it must not be kept. */
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answer: KeptAnswer | null }): Promise<void>
  /** The request cost nothing: its key is free again. */
  release(claim: Claim): Promise<void>
}

export interface ClaimsDeps {
  readonly sql: Sql
  readonly store: Pick<LedgerStore, 'settle'>
  readonly nodeShard: number
  readonly node: { readonly nodeId: string }
  readonly masterKey: Buffer
  /** The longest time limit that a server has for its answer. */
  readonly longestAnswerMs: number
}

/** Larger answers are not kept. */
export const ANSWER_BYTES_MAX = 256 * 1024
const KEPT = `interval '24 hours'`
/** Beyond the longest answer, for what its client still has to read of it: a key that is claimed for longer was forgotten. */
const FORGOTTEN_AFTER_MS = 3_600_000
/** From the commit of a charge until its claim is finished. */
const FINISHED_WITHIN = `interval '10 s'`
/** Each try but the last was overtaken by another request with the same key. */
const TRIES = 5

export function createClaims({ sql, store, nodeShard, node, masterKey, longestAnswerMs }: ClaimsDeps): Claims {
  return {
    async claim(claim) {
      try {
        for (let tries = 0; tries < TRIES; tries++) {
          const claimed = (await claimNew(claim)) ?? (await claimOld(claim))
          if (claimed !== undefined) return claimed
        }
        return { kind: 'running' }
      } catch (error) {
        throw isTransient(error) ? new ApiError('database_unavailable', { retryAfterS: 2, internal: error }) : error
      }
    },
    async finish({ customerId, key, requestId }, { costNanos, answer }) {
      const isKept = answer !== null && Buffer.byteLength(answer.body) <= ANSWER_BYTES_MAX
      const sealed = isKept
        ? sealSecret(masterKey, textOf(answer), { ownerId: requestId, purpose: 'stored_answer' })
        : null
      await sql.query(
        `UPDATE idempotency SET state = 'done', cost_nanos = $4, answer_sealed = $5
         WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
        [customerId, key, requestId, costNanos, sealed],
      )
    },
    async release({ customerId, key, requestId }) {
      await sql.query(
        `DELETE FROM idempotency WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
        [customerId, key, requestId],
      )
    },
  }

  /** Takes a key that stands for nothing, or for something of yesterday. */
  async function claimNew({ customerId, key, bodyHash, requestId }: Claim): Promise<Claimed | undefined> {
    const { rowCount } = await sql.query(
      `INSERT INTO idempotency AS i (customer_id, key, body_hash, request_id, node_id, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + ${KEPT})
       ON CONFLICT (customer_id, key) DO UPDATE
         SET body_hash = excluded.body_hash, request_id = excluded.request_id, node_id = excluded.node_id, state = 'running',
           cost_nanos = NULL, answer_sealed = NULL, claimed_at = now(), expires_at = excluded.expires_at
         WHERE i.expires_at <= now()`,
      [customerId, key, bodyHash, requestId, node.nodeId],
    )
    return rowCount === 1 ? { kind: 'mine' } : undefined
  }

  /** What the key stands for; undefined when that has changed meanwhile. */
  async function claimOld(claim: Claim): Promise<Claimed | undefined> {
    const { rows } = await sql.query<ClaimRow>(
      `SELECT i.request_id, i.body_hash = $3 AS is_same_body, i.state = 'done' AS is_done, i.cost_nanos, i.answer_sealed,
         coalesce(n.state = 'alive' AND n.expires_at > now() AND i.claimed_at > now() - $4 * interval '1 ms'
           AND coalesce(u.started_at + u.latency_ms * interval '1 ms' > now() - ${FINISHED_WITHIN}, true), false) AS is_running,
         u.outcome, u.success, u.cost_nanos AS charged_nanos
       FROM idempotency i
       LEFT JOIN node n ON n.node_id = i.node_id
       LEFT JOIN usage_event u ON u.customer_id = i.customer_id AND u.request_id = i.request_id
       WHERE i.customer_id = $1 AND i.key = $2`,
      [claim.customerId, claim.key, claim.bodyHash, longestAnswerMs + FORGOTTEN_AFTER_MS],
    )
    const row = rows[0]
    if (row === undefined) return undefined
    if (!row.is_same_body) return { kind: 'other_body' }
    const { request_id: requestId } = row
    if (row.is_done) return { kind: 'done', requestId, costNanos: row.cost_nanos!, answer: answerOf(row) }
    if (row.is_running) return { kind: 'running' }
    // Its node is gone, or could not say how it ended. A usage row does.
    if (row.success || (row.charged_nanos ?? 0n) > 0n) {
      return { kind: 'done', requestId, costNanos: row.charged_nanos!, answer: null }
    }
    const isOver = row.outcome !== null && row.outcome !== 'node_died'
    // It may be charged yet, from the journal of its node: unless this row is there first. Whichever commits first wins.
    if (!isOver && (await supersede(claim, requestId)) === 'too_late') return undefined
    return takeOver(claim, requestId)
  }

  async function supersede(claim: Claim, requestId: string): Promise<'superseded' | 'too_late'> {
    const effects = await store.settle(nodeShard, [supersededSettlement(claim, requestId)])
    return effects.get(requestId) === 'duplicate' ? 'too_late' : 'superseded'
  }

  async function takeOver(
    { customerId, key, requestId }: Claim,
    earlierRequestId: string,
  ): Promise<Claimed | undefined> {
    const { rowCount } = await sql.query(
      `UPDATE idempotency SET request_id = $4, node_id = $5, claimed_at = now(), expires_at = now() + ${KEPT}
       WHERE customer_id = $1 AND key = $2 AND request_id = $3 AND state = 'running'`,
      [customerId, key, earlierRequestId, requestId, node.nodeId],
    )
    return rowCount === 1 ? { kind: 'mine' } : undefined
  }

  function answerOf({ answer_sealed: sealed, request_id: ownerId }: ClaimRow): KeptAnswer | null {
    if (sealed === null) return null
    try {
      return keptIn(openSecret(masterKey, sealed, { ownerId, purpose: 'stored_answer' }))
    } catch {
      // Sealed with an earlier master key.
      return null
    }
  }
}

/** One line of JSON, then the body as it is: as JSON it would be a tenth longer. */
function textOf({ body, servedBy }: KeptAnswer): string {
  return `${JSON.stringify(servedBy)}\n${body}`
}

function keptIn(text: string): KeptAnswer {
  const end = text.indexOf('\n')
  return { servedBy: JSON.parse(text.slice(0, end)), body: text.slice(end + 1) }
}

interface ClaimRow {
  readonly request_id: string
  readonly is_same_body: boolean
  readonly is_done: boolean
  readonly is_running: boolean
  readonly cost_nanos: bigint | null
  readonly answer_sealed: Buffer | null
  readonly outcome: string | null
  readonly success: boolean | null
  readonly charged_nanos: bigint | null
}

/** The free row that keeps a request of a lost node from being charged later. */
function supersededSettlement({ customerId, keyId, modelId }: Claim, requestId: string): Settlement {
  return {
    requestId,
    leaseId: requestId,
    customerId,
    keyId,
    startedAtEpochMs: epochMsOf(requestId),
    modelId,
    provider: 'none',
    endpointId: null,
    hosterId: null,
    inputTokens: 0,
    outputTokens: 0,
    reportedInputTokens: null,
    reportedOutputTokens: null,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: 'none',
    price: { inputPicoPerToken: 0n, outputPicoPerToken: 0n },
    priceVersion: null,
    holdNanos: 0n,
    costNanos: 0n,
    hosterShareNanos: 0n,
    feeNanos: 0n,
    writeoffNanos: 0n,
    latencyMs: 0,
    firstTokenMs: null,
    success: false,
    outcome: 'superseded',
    finishReason: null,
    attempts: [],
    routing: null,
  }
}

/** RFC 9562: a UUIDv7 begins with 48 bits of milliseconds. */
function epochMsOf(requestId: string): number {
  return Number.parseInt(requestId.slice(0, 8) + requestId.slice(9, 13), 16)
}
