import { createHash } from 'node:crypto'
import { DONE } from '../dialects/chat/sse-encode.ts'
import type { Caller } from '../domain/caller.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import { ApiError, modelNotAllowed } from '../domain/errors.ts'
import { type Nanos, usd, usdText } from '../domain/money.ts'
import type { Delivery, WriteFrames } from '../relay/relay.ts'
import type { Completed } from './complete.ts'
import type { Claim } from './idempotency/claim-store.ts'
import { ANSWER_BYTES_MAX, type Claims, type KeptAnswer, type ServedBy } from './idempotency/claims.ts'

export interface CompleteOnceDeps {
  readonly claims: Pick<Claims, 'claim' | 'finish' | 'release'>
  /** Runs the chat; `watch` hears of its one settlement. */
  readonly complete: (watch: SettlementWatch) => Promise<Completed>
  /** Throws 429 when that costs nothing to find out. */
  readonly refuseExhausted: () => void
  /** Counts a request that does not run against the windows. Throws what refuses it. */
  readonly count: () => Promise<void>
  /** Told what broke without being of use to the caller. */
  readonly onFault: (requestId: string, fault: unknown) => void
}

export interface SettlementWatch {
  onSettled(settled: Settled): void
  /** The caller was told that it is free, and yet its charge may have been committed: nobody here knows. */
  onOutcomeUnknown(): void
}

/** The part of a settlement that matters here. */
export interface Settled {
  readonly success: boolean
  readonly costNanos: Nanos
}

export interface OnceRequest {
  readonly caller: Caller
  readonly job: ChatJob
  readonly body: Buffer
  readonly requestId: string
  /** The Idempotency-Key. */
  readonly key: string
}

/** An answer that an earlier request with the same key was given already. */
export interface Replayed {
  /** The id of that request. */
  readonly replayOf: string
  readonly servedBy: ServedBy
  readonly delivery: Delivery
}

/**
 * A chat completion that happens once for its Idempotency-Key, however often and to whatever node it is sent: what was served or charged
 * is answered with what was kept of it, or with 409 `already_completed`; what cost nothing is done again.
 *
 * Throws `idempotency_key_in_use`, `already_completed`, `idempotency_key_reused`, `model_not_allowed` and what `complete` throws.
 */
export async function completeOnce(deps: CompleteOnceDeps, request: OnceRequest): Promise<Completed | Replayed> {
  const { caller, job, requestId, key } = request
  const claim: Claim = {
    customerId: caller.customerId,
    keyId: caller.keyId,
    key,
    bodyHash: createHash('sha256').update(request.body).digest(),
    requestId,
    modelId: job.model,
  }
  // A claim is made and given back in PostgreSQL: whoever is over a limit is not to have that done at every try.
  deps.refuseExhausted()
  const claimed = await deps.claims.claim(claim)
  if (claimed.kind === 'mine') return run(deps, claim, job)
  await deps.count()
  switch (claimed.kind) {
    case 'done': {
      const { answer, costNanos } = claimed
      if (answer !== null) {
        const { body, servedBy } = answer
        // It may have been another key of the customer that asked for it.
        const { allowedModels } = caller.access
        if (allowedModels !== null && !allowedModels.has(servedBy.modelId)) throw modelNotAllowed(servedBy.modelId)
        return { replayOf: claimed.requestId, servedBy, delivery: deliveryOf(body, job, costNanos) }
      }
      throw new ApiError('already_completed', {
        param: HEADER,
        facts: { request_id: claimed.requestId, cost_usd: usd(costNanos) },
        message: `The request with this Idempotency-Key was completed as ${claimed.requestId}, and charged ${usdText(costNanos)} USD once; its answer is not kept. Send a new key for a new answer.`,
      })
    }
    case 'running':
      throw new ApiError('idempotency_key_in_use', { param: HEADER, retryAfterS: 2 })
    case 'other_body':
      throw new ApiError('idempotency_key_reused', { param: HEADER })
  }
}

const HEADER = 'Idempotency-Key'

/** What is to be known of an answer beside its body. */
export function servedBy({ offer: { endpoint, modelId }, ticket: { clamp, maxTokens } }: Completed): ServedBy {
  const { kind: provider, hosterId } = endpoint
  return { modelId, provider, hosterId, maxTokens: clamp === null ? null : maxTokens }
}

async function run(deps: CompleteOnceDeps, claim: Claim, job: ChatJob): Promise<Completed> {
  let settlement: Settled | undefined
  let isOutcomeUnknown = false
  /**
   * Called once, when it is settled or can be no more. What fails here, and a charge that nobody is sure of, leaves a claim that a usage row
   * explains to the next who asks: a key that was free again too early would be charged twice.
   */
  const end = async (answer: KeptAnswer | null) => {
    try {
      if (settlement !== undefined && (settlement.success || settlement.costNanos > 0n)) {
        const mayKeep = settlement.success && !job.constraints.privacyMode
        await deps.claims.finish(claim, { costNanos: settlement.costNanos, answer: mayKeep ? answer : null })
      } else if (!isOutcomeUnknown) {
        await deps.claims.release(claim)
      }
    } catch (fault) {
      deps.onFault(claim.requestId, fault)
    }
  }
  try {
    const completed = await deps.complete({
      onSettled(settled) {
        settlement = settled
      },
      onOutcomeUnknown() {
        isOutcomeUnknown = true
      },
    })
    const { delivery } = completed
    const endWith = (body: string | null) => end(body === null ? null : { body, servedBy: servedBy(completed) })
    if (delivery.kind === 'stream') return { ...completed, delivery: keeping(delivery, endWith) }
    await endWith(delivery.body)
    return completed
  } catch (failure) {
    await end(null)
    throw failure
  }
}

function deliveryOf(body: string, { stream }: ChatJob, costNanos: Nanos): Delivery {
  if (!stream) return { kind: 'whole', body, costNanos }
  return { kind: 'stream', sendTo: async write => write(body) }
}

/** The same stream, whose events are kept as they pass, up to the bound, and which ends the claim when it ends. */
function keeping(
  delivery: Extract<Delivery, { kind: 'stream' }>,
  end: (body: string | null) => Promise<void>,
): Delivery {
  return {
    kind: 'stream',
    async sendTo(write: WriteFrames) {
      const kept: string[] = []
      let chars = 0
      try {
        await delivery.sendTo(frames => {
          chars += frames.length
          if (chars <= ANSWER_BYTES_MAX) kept.push(frames)
          return write(frames)
        })
      } finally {
        const text = kept.join('')
        await end(chars <= ANSWER_BYTES_MAX && text.endsWith(DONE) ? text : null)
      }
    },
  }
}
