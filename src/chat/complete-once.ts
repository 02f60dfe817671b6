import { ApiError, modelNotAllowed } from '../domain/errors.ts'
import { type Nanos, usd, usdText } from '../domain/money.ts'
import type { SettlementWatch } from '../settle/settle.ts'
import type { CompletionRequest, EventSink, Served, ServedBy } from './completion-request.ts'
import type { Claim } from './idempotency/claim-store.ts'
import { ANSWER_BYTES_MAX, type Claims, type KeptAnswer } from './idempotency/claims.ts'

export interface CompleteOnceDeps {
  readonly claims: Pick<Claims, 'claim' | 'finish' | 'release'>
  /** Runs the request: `complete`. */
  readonly complete: (request: CompletionRequest, events: EventSink) => Promise<Served>
  /** Throws 429 when the window is known to be exhausted without asking the database. */
  readonly refuseExhausted: (request: CompletionRequest) => void
  /** Counts a request that does not run against the windows. Throws what refuses it. */
  readonly count: (request: CompletionRequest) => Promise<void>
  /** Receives faults that the client is not told about. */
  readonly onFault: (requestId: string, fault: unknown) => void
}

export interface OnceRequest extends CompletionRequest {
  /** SHA-256 of the path and the body of the request. */
  readonly bodyHash: Buffer
  /** The Idempotency-Key. */
  readonly key: string
}

/**
 * Completes a request once for its Idempotency-Key, however often and to whatever node it is sent. If it was served or charged before, the
 * kept answer is sent again, or 409 `already_completed` when the answer was not kept. If it cost nothing, it runs again.
 *
 * Throws `idempotency_key_in_use`, `already_completed`, `idempotency_key_reused`, `model_not_allowed` and what `complete` throws.
 */
export async function completeOnce(deps: CompleteOnceDeps, request: OnceRequest, events: EventSink): Promise<Served> {
  const { caller, job, requestId, key } = request
  const claim: Claim = {
    customerId: caller.customerId,
    keyId: caller.keyId,
    key,
    bodyHash: request.bodyHash,
    requestId,
    modelId: job.model,
  }
  // A claim is made and released in PostgreSQL: a caller over its limit must not cause that with every attempt.
  deps.refuseExhausted(request)
  const claimed = await deps.claims.claim(claim)
  if (claimed.kind === 'mine') return run(deps, claim, request, events)
  await deps.count(request)
  switch (claimed.kind) {
    case 'done': {
      const { answer, costNanos } = claimed
      if (answer !== null) return replay(answer, claimed.requestId, costNanos, request, events)
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

/** Sends the answer of the earlier request `replayOf` again. */
async function replay(
  { body, servedBy }: KeptAnswer,
  replayOf: string,
  costNanos: Nanos,
  { caller, job }: CompletionRequest,
  events: EventSink,
): Promise<Served> {
  // Another key of the customer may have made the earlier request.
  const { allowedModels } = caller.access
  if (allowedModels !== null && !allowedModels.has(servedBy.modelId)) throw modelNotAllowed(servedBy.modelId)
  if (!job.stream) return { servedBy, replayOf, whole: { body, costNanos } }
  await events.open(servedBy, replayOf)
  await events.write(body)
  return { servedBy, replayOf, whole: null }
}

/** Runs the request and ends its claim with what came of it. */
async function run(
  deps: CompleteOnceDeps,
  claim: Claim,
  request: CompletionRequest,
  events: EventSink,
): Promise<Served> {
  const watch = new ClaimWatch()
  const recording = new RecordingSink(events)
  let answer: KeptAnswer | null = null
  try {
    const served = await deps.complete({ ...request, watch }, recording)
    const body = served.whole?.body ?? recording.complete(request.dialect.stream)
    if (body !== null) answer = { body, servedBy: served.servedBy }
    return served
  } finally {
    // A whole answer is not sent before its claim has ended.
    await endClaim(deps, claim, request, watch, answer)
  }
}

/**
 * When ending the claim fails, or when nobody knows whether the request was charged, the claim stays and its usage row explains it to the next
 * request with the key: a key that is released too early would be charged twice.
 */
async function endClaim(
  { claims, onFault }: CompleteOnceDeps,
  claim: Claim,
  { job }: CompletionRequest,
  { settled, isOutcomeUnknown }: ClaimWatch,
  answer: KeptAnswer | null,
): Promise<void> {
  try {
    if (settled !== undefined && (settled.success || settled.costNanos > 0n)) {
      const mayKeep = settled.success && !job.constraints.privacyMode
      await claims.finish(claim, { costNanos: settled.costNanos, answer: mayKeep ? answer : null })
    } else if (!isOutcomeUnknown) {
      await claims.release(claim)
    }
  } catch (fault) {
    onFault(claim.requestId, fault)
  }
}

class ClaimWatch implements SettlementWatch {
  settled: { readonly success: boolean; readonly costNanos: Nanos } | undefined
  isOutcomeUnknown = false

  onSettled(settled: { readonly success: boolean; readonly costNanos: Nanos }): void {
    this.settled = settled
  }

  onOutcomeUnknown(): void {
    this.isOutcomeUnknown = true
  }
}

/** Passes events on and records them, up to ANSWER_BYTES_MAX characters. */
class RecordingSink implements EventSink {
  readonly #events: EventSink
  readonly #kept: string[] = []
  #chars = 0

  constructor(events: EventSink) {
    this.#events = events
  }

  open(servedBy: ServedBy): Promise<void> {
    return this.#events.open(servedBy)
  }

  readonly write = (events: string): void | Promise<void> => {
    this.#chars += events.length
    if (this.#chars <= ANSWER_BYTES_MAX) this.#kept.push(events)
    return this.#events.write(events)
  }

  /** The recorded stream if it is complete and not too large to keep, otherwise null. */
  complete({ isComplete }: CompletionRequest['dialect']['stream']): string | null {
    const text = this.#kept.join('')
    return this.#chars <= ANSWER_BYTES_MAX && isComplete(text) ? text : null
  }
}
