import { refuseOutage } from '../../../base/db/refuse-outage.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { openSecret, sealSecret } from '../../../base/secrets/sealed-secret.ts'
import { isTransient } from '../../../money/ledger/is-transient.ts'
import type { NodeLife } from '../../../money/ledger/leases/node-life.ts'
import { UNCONFIRMED_WATCH_MS } from '../../../money/ledger/leases/unconfirmed-leases.ts'
import { KEYS_FREE_AFTER_MS, type LedgerStore } from '../../../money/ledger/ledger-store.ts'
import { encodeSettlements, type Settlement } from '../../../money/ledger/settlement/settlement.ts'
import type { ServedBy } from '../completion-request.ts'
import type { Claim, ClaimStore, StoredClaim } from './claim-store.ts'
import { RetryQueue } from './retry-queue.ts'

export type Claimed =
  /** The key is claimed: run the request, then call `finish` or `release`. */
  | { readonly kind: 'claimed' }
  /** An earlier request with this key is still running. */
  | { readonly kind: 'running' }
  /** An earlier request was served or charged. `answer` is null when it was not stored. */
  | {
      readonly kind: 'done'
      readonly requestId: string
      readonly costNanos: Nanos
      readonly answer: StoredAnswer | null
    }
  | { readonly kind: 'other_body' }

/** An answer as its client received it. */
export interface StoredAnswer {
  /** A whole answer, or the events of a stream. */
  readonly body: string
  readonly servedBy: ServedBy
}

/** The Idempotency-Keys of all nodes, in PostgreSQL. */
export interface Claims {
  /** Rejects with `database_unavailable`. */
  claim(claim: Claim): Promise<Claimed>
  /**
   * Records that the request was served or charged. `answer` is null when it must not be stored. Rejects when
   * the database is unavailable; the write is then retried.
   */
  finish(claim: Claim, ending: { readonly costNanos: Nanos; readonly answer: StoredAnswer | null }): Promise<void>
  /**
   * Frees the key of a request that cost nothing. Rejects when the database is unavailable; the write is then
   * retried.
   */
  release(claim: Claim): Promise<void>
  /** Drops the writes that are still waiting for the database. */
  stop(): void
}

export interface ClaimsDeps {
  readonly store: ClaimStore
  readonly ledgerStore: Pick<LedgerStore, 'settle'>
  readonly nodeShard: number
  readonly node: Pick<NodeLife, 'nodeId' | 'isSilent'>
  readonly scheduler: Pick<Scheduler, 'after'>
  readonly masterKeys: SealingKeys
  readonly log: Pick<Log, 'error'>
}

/** Larger answers are not stored. */
export const ANSWER_BYTES_MAX = 256 * 1024
/**
 * Limits the attempts to claim a key. An attempt fails when another request with the key changes the entry in
 * between.
 */
const ATTEMPTS_MAX = 5

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, ledgerStore, nodeShard, node, scheduler, masterKeys, log } = deps
  // Retries failed writes: a claim that is neither finished nor released keeps its key in use for more than an
  // hour while its node is alive.
  const endings = new RetryQueue(scheduler, isTransient, error =>
    log.error(
      { err: error },
      'ends of requests with an Idempotency-Key are lost: their keys stay in use for more than an hour',
    ),
  )
  return {
    async claim(claim) {
      try {
        for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
          const claimed = (await store.take(claim, node.nodeId)) ? newClaim : await resolveExisting(claim)
          if (claimed !== undefined) return claimed
        }
        return { kind: 'running' }
      } catch (error) {
        if (!isTransient(error)) throw error
        // This request will not run, but its claim may have been committed, or may still be committed later.
        endings.add(() => store.release(claim))
        endings.addLater(UNCONFIRMED_WATCH_MS, () => store.release(claim))
        refuseOutage(error)
      }
    },
    finish(claim, { costNanos, answer }) {
      const mayStore = answer !== null && Buffer.byteLength(answer.body) <= ANSWER_BYTES_MAX
      const owner = { ownerId: claim.requestId, purpose: 'stored_answer' } as const
      const answerSealed = mayStore ? sealSecret(masterKeys, encodeAnswer(answer), owner) : null
      return writeOrRetry(() => store.finish(claim, { costNanos, answerSealed }))
    },
    release: claim => writeOrRetry(() => store.release(claim)),
    stop: () => endings.stop(),
  }

  async function writeOrRetry(write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (error) {
      if (isTransient(error)) endings.add(write)
      throw error
    }
  }

  /** Resolves a claim on a key that is in use. Returns undefined when the entry has changed in between. */
  async function resolveExisting(claim: Claim): Promise<Claimed | undefined> {
    const stored = await store.find(claim)
    if (stored === undefined) return undefined
    if (!stored.isSameBody) return { kind: 'other_body' }
    const { requestId, done, row } = stored
    if (done !== null) return { kind: 'done', requestId, costNanos: done.costNanos, answer: openAnswer(stored) }
    if (stored.isRunning && !node.isSilent(stored.nodeId, KEYS_FREE_AFTER_MS)) return { kind: 'running' }
    // The node of the earlier request is dead or silent, or could not record the end. The usage row shows how the
    // request ended.
    if (row?.success === true) return { kind: 'done', requestId, costNanos: row.costNanos, answer: null }
    const hasEnded = row !== null && row.outcome !== 'node_died'
    // The journal of the earlier node may still charge the request, unless a free row is written first. The
    // first commit wins.
    if (!hasEnded && (await supersede(claim, requestId)) === 'too_late') return undefined
    return (await store.takeOver(claim, requestId, node.nodeId)) ? newClaim : undefined
  }

  async function supersede(claim: Claim, requestId: string): Promise<'superseded' | 'too_late'> {
    const effects = await ledgerStore.settle(nodeShard, encodeSettlements([supersededSettlement(claim, requestId)]))
    return effects.get(requestId) === 'duplicate' ? 'too_late' : 'superseded'
  }

  function openAnswer({ done, requestId: ownerId }: StoredClaim): StoredAnswer | null {
    const sealed = done?.answerSealed ?? null
    if (sealed === null) return null
    try {
      return decodeAnswer(openSecret(masterKeys, sealed, { ownerId, purpose: 'stored_answer' }))
    } catch {
      // The answer was sealed with an earlier master key.
      return null
    }
  }
}

const newClaim: Claimed = { kind: 'claimed' }

/**
 * Encodes `servedBy` as one line of JSON, followed by the unencoded body: as JSON the body would be a tenth
 * longer.
 */
function encodeAnswer({ body, servedBy }: StoredAnswer): string {
  return `${JSON.stringify(servedBy)}\n${body}`
}

function decodeAnswer(text: string): StoredAnswer {
  const end = text.indexOf('\n')
  return { servedBy: JSON.parse(text.slice(0, end)), body: text.slice(end + 1) }
}

/** Returns a free settlement, which prevents a request of a lost node from being charged later. */
function supersededSettlement({ customerId, keyId, modelId }: Claim, requestId: string): Settlement {
  return {
    requestId,
    leaseId: requestId,
    customerId,
    keyId,
    label: null,
    startedAtEpochMs: uuidEpochMs(requestId),
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
    parts: null,
    reasoningTokens: null,
    priceVersion: null,
    priceGroup: null,
    upstreamCostNanos: null,
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
function uuidEpochMs(requestId: string): number {
  return Number.parseInt(requestId.slice(0, 8) + requestId.slice(9, 13), 16)
}
