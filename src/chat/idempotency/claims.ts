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
import { createRetryQueue } from './retry-queue.ts'

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

/** What Idempotency-Keys stand for, in PostgreSQL, for all nodes. */
export interface Claims {
  /** Rejects with `database_unavailable`. */
  claim(claim: Claim): Promise<Claimed>
  /**
   * The request was served or charged: from now on its key stands for this. `answer` is null when it must not be kept. When the database
   * is away it rejects, and is done as soon as it is back.
   */
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answer: KeptAnswer | null }): Promise<void>
  /** The request cost nothing: its key is free again. When the database is away it rejects, and is done as soon as it is back. */
  release(claim: Claim): Promise<void>
  /** The end: what could not be written is given up. */
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
/** Each try but the last was overtaken by another request with the same key. */
const TRIES = 5

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, ledgerStore, nodeShard, node, scheduler, masterKey } = deps
  // While its node lives, a key that nobody ends is in use for an hour.
  const endings = createRetryQueue(scheduler, isTransient)
  return {
    async claim(claim) {
      try {
        for (let tries = 0; tries < TRIES; tries++) {
          const claimed = (await store.take(claim, node.nodeId)) ? mine : await claimOld(claim)
          if (claimed !== undefined) return claimed
        }
        return { kind: 'running' }
      } catch (error) {
        if (!isTransient(error)) throw error
        // The key may have been taken, or will be yet, by this request that does not run.
        endings.insist(() => store.release(claim))
        endings.retryLater(UNCONFIRMED_WATCH_MS, () => store.release(claim))
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
    stop: endings.stop,
  }

  async function end(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (isTransient(error)) endings.insist(write)
      throw error
    }
  }

  /** What the key stands for; undefined when that has changed meanwhile. */
  async function claimOld(claim: Claim): Promise<Claimed | undefined> {
    const stored = await store.find(claim)
    if (stored === undefined) return undefined
    if (!stored.isSameBody) return { kind: 'other_body' }
    const { requestId, done, row } = stored
    if (done !== null) return { kind: 'done', requestId, costNanos: done.costNanos, answer: answerOf(stored) }
    if (stored.isRunning) return { kind: 'running' }
    // Its node is gone, or could not say how it ended. A usage row does.
    if (row !== null && (row.success || row.costNanos > 0n)) {
      return { kind: 'done', requestId, costNanos: row.costNanos, answer: null }
    }
    const isOver = row !== null && row.outcome !== 'node_died'
    // It may be charged yet, from the journal of its node: unless this row is there first. Whichever commits first wins.
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
      // Sealed with an earlier master key.
      return null
    }
  }
}

const mine: Claimed = { kind: 'mine' }

/** One line of JSON, then the body as it is: as JSON it would be a tenth longer. */
function textOf({ body, servedBy }: KeptAnswer): string {
  return `${JSON.stringify(servedBy)}\n${body}`
}

function keptIn(text: string): KeptAnswer {
  const end = text.indexOf('\n')
  return { servedBy: JSON.parse(text.slice(0, end)), body: text.slice(end + 1) }
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
