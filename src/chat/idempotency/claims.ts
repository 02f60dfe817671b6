import { ApiError } from '../../domain/errors.ts'
import type { Nanos } from '../../domain/money.ts'
import { isTransient } from '../../ledger/is-transient.ts'
import { UNCONFIRMED_WATCH_MS } from '../../ledger/leases/unconfirmed-leases.ts'
import type { LedgerStore } from '../../ledger/ledger-store.ts'
import type { Settlement } from '../../ledger/settlement/settlement.ts'
import { encodeSettlements } from '../../ledger/settlement/settlement-record.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { openSecret, sealSecret } from '../../secrets/sealed-secret.ts'
import type { ServedBy } from '../completion-request.ts'
import type { Claim, ClaimStore, StoredClaim } from './claim-store.ts'
import { RetryQueue } from './retry-queue.ts'

export type Claimed =
  /** Run it, then call `finish` or `release`. */
  | { readonly kind: 'mine' }
  /** An earlier request with this key is still running. */
  | { readonly kind: 'running' }
  /** An earlier request was served or charged. `answer` is what its client received, null when it was not kept. */
  | { readonly kind: 'done'; readonly requestId: string; readonly costNanos: Nanos; readonly answer: KeptAnswer | null }
  | { readonly kind: 'other_body' }

/** What a client received. */
export interface KeptAnswer {
  /** A whole answer, or the events of a stream. */
  readonly body: string
  readonly servedBy: ServedBy
}

/** The Idempotency-Keys of all nodes, in PostgreSQL. */
export interface Claims {
  /** Rejects with `database_unavailable`. */
  claim(claim: Claim): Promise<Claimed>
  /**
   * Records that the request was served or charged. `answer` is null when it must not be kept. Rejects when the database is unavailable; the
   * write is then retried until it succeeds.
   */
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answer: KeptAnswer | null }): Promise<void>
  /** Frees the key of a request that cost nothing. Rejects when the database is unavailable; the write is then retried until it succeeds. */
  release(claim: Claim): Promise<void>
  /** Gives up the writes that are still waiting for the database. */
  stop(): void
}

export interface ClaimsDeps {
  readonly store: ClaimStore
  readonly ledgerStore: Pick<LedgerStore, 'settle'>
  readonly nodeShard: number
  readonly node: { readonly nodeId: string }
  readonly scheduler: Pick<Scheduler, 'after'>
  readonly masterKey: Buffer
}

/** Larger answers are not kept. */
export const ANSWER_BYTES_MAX = 256 * 1024
/** An attempt fails when another request with the same key changes the entry in between. */
const ATTEMPTS_MAX = 5

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, ledgerStore, nodeShard, node, scheduler, masterKey } = deps
  // A claim that is neither finished nor released keeps its key in use for an hour while its node is alive.
  const endings = new RetryQueue(scheduler, isTransient)
  return {
    async claim(claim) {
      try {
        for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
          const claimed = (await store.take(claim, node.nodeId)) ? mine : await claimOld(claim)
          if (claimed !== undefined) return claimed
        }
        return { kind: 'running' }
      } catch (error) {
        if (!isTransient(error)) throw error
        // This request will not run, but its claim may have been committed, or may still be.
        endings.add(() => store.release(claim))
        endings.addLater(UNCONFIRMED_WATCH_MS, () => store.release(claim))
        throw new ApiError('database_unavailable', { retryAfterS: 2, internal: error })
      }
    },
    finish(claim, { costNanos, answer }) {
      const isKept = answer !== null && Buffer.byteLength(answer.body) <= ANSWER_BYTES_MAX
      const owner = { ownerId: claim.requestId, purpose: 'stored_answer' } as const
      const answerSealed = isKept ? sealSecret(masterKey, textOf(answer), owner) : null
      return end(() => store.finish(claim, { costNanos, answerSealed }))
    },
    release: claim => end(() => store.release(claim)),
    stop: () => endings.stop(),
  }

  async function end(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (isTransient(error)) endings.add(write)
      throw error
    }
  }

  /** Decides about a key that is in use; undefined when its entry has changed in between. */
  async function claimOld(claim: Claim): Promise<Claimed | undefined> {
    const stored = await store.find(claim)
    if (stored === undefined) return undefined
    if (!stored.isSameBody) return { kind: 'other_body' }
    const { requestId, done, row } = stored
    if (done !== null) return { kind: 'done', requestId, costNanos: done.costNanos, answer: answerOf(stored) }
    if (stored.isRunning) return { kind: 'running' }
    // The node of the earlier request is dead or could not record the end. The usage row shows how the request ended.
    if (row !== null && (row.success || row.costNanos > 0n)) {
      return { kind: 'done', requestId, costNanos: row.costNanos, answer: null }
    }
    const isOver = row !== null && row.outcome !== 'node_died'
    // The journal of its node may still charge it, unless a free row is written first. The first commit wins.
    if (!isOver && (await supersede(claim, requestId)) === 'too_late') return undefined
    return (await store.takeOver(claim, requestId, node.nodeId)) ? mine : undefined
  }

  async function supersede(claim: Claim, requestId: string): Promise<'superseded' | 'too_late'> {
    const effects = await ledgerStore.settle(nodeShard, encodeSettlements([supersededSettlement(claim, requestId)]))
    return effects.get(requestId) === 'duplicate' ? 'too_late' : 'superseded'
  }

  function answerOf({ done, requestId: ownerId }: StoredClaim): KeptAnswer | null {
    const sealed = done?.answerSealed ?? null
    if (sealed === null) return null
    try {
      return keptIn(openSecret(masterKey, sealed, { ownerId, purpose: 'stored_answer' }))
    } catch {
      // The answer was sealed with an earlier master key.
      return null
    }
  }
}

const mine: Claimed = { kind: 'mine' }

/** One line of JSON, then the body as it is: encoding the body as JSON would make it a tenth longer. */
function textOf({ body, servedBy }: KeptAnswer): string {
  return `${JSON.stringify(servedBy)}\n${body}`
}

function keptIn(text: string): KeptAnswer {
  const end = text.indexOf('\n')
  return { servedBy: JSON.parse(text.slice(0, end)), body: text.slice(end + 1) }
}

/** A free row that prevents a request of a lost node from being charged later. */
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
