import { ApiError, modelNotAllowed } from '../../base/domain/errors.ts'
import { type Nanos, usd, usdText } from '../../base/domain/money.ts'
import type { SettlementWatch } from '../settle/settle.ts'
import type { CompletionRequest, EventSink, Served, ServedBy } from './completion-request.ts'
import type { Claim } from './idempotency/claim-store.ts'
import { ANSWER_BYTES_MAX, type Claims, type StoredAnswer } from './idempotency/claims.ts'

export interface CompleteOnceDeps {
  readonly claims: Pick<Claims, 'claim' | 'finish' | 'release'>
  /** Runs the request: `complete`. */
  readonly complete: (request: CompletionRequest, events: EventSink) => Promise<Served>
  /** Throws 429 if the rate window is already known to be exhausted, without querying the database. */
  readonly refuseExhausted: (request: CompletionRequest) => void
  /**
   * Counts a request against the rate windows even though it does not run. Throws an ApiError if a limit
   * refuses it.
   */
  readonly count: (request: CompletionRequest) => Promise<void>
  /** Receives faults for the log. */
  readonly onFault: (requestId: string, fault: unknown) => void
}

export interface OnceRequest extends CompletionRequest {
  /** SHA-256 of the path and the body of the request. */
  readonly bodyHash: Buffer
  /** The Idempotency-Key. */
  readonly key: string
}

/**
 * Completes a request once per Idempotency-Key, however often and to whichever node it is sent. If an earlier
 * request with the key was served or charged, its stored answer is sent again; if no answer was stored, that
 * is 409 `already_completed`. If the earlier request cost nothing, this one runs.
 *
 * Throws `idempotency_key_in_use`, `already_completed`, `idempotency_key_reused`, `model_not_allowed` and the
 * errors of `complete`.
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
  // Claiming and releasing a key writes to PostgreSQL. A caller over its limit must not cause that with every
  // attempt.
  deps.refuseExhausted(request)
  const claimed = await deps.claims.claim(claim)
  if (claimed.kind === 'claimed') return run(deps, claim, request, events)
  await deps.count(request)
  switch (claimed.kind) {
    case 'done': {
      const { answer, costNanos } = claimed
      if (answer !== null) return replay(answer, claimed.requestId, costNanos, request, events)
      throw new ApiError('already_completed', {
        param: HEADER,
        facts: { request_id: claimed.requestId, cost_usd: usd(costNanos) },
        message: `The request with this Idempotency-Key was completed as ${claimed.requestId} and charged ${usdText(costNanos)} USD once. Its answer was not stored. Send a new key for a new answer.`,
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
  { body, servedBy }: StoredAnswer,
  replayOf: string,
  costNanos: Nanos,
  { caller, job }: CompletionRequest,
  events: EventSink,
): Promise<Served> {
  // The earlier request may have used another API key of the customer, with other allowed models.
  const { allowedModels } = caller.access
  if (allowedModels !== null && !allowedModels.has(servedBy.modelId)) throw modelNotAllowed(servedBy.modelId)
  if (!job.stream) return { servedBy, replayOf, whole: { body, costNanos } }
  await events.open(servedBy, replayOf)
  await events.write(body)
  return { servedBy, replayOf, whole: null }
}

/** Runs the request, then finishes or releases its claim. */
async function run(
  deps: CompleteOnceDeps,
  claim: Claim,
  request: CompletionRequest,
  events: EventSink,
): Promise<Served> {
  const watch = new ClaimWatch()
  const recording = new RecordingSink(events)
  let answer: StoredAnswer | null = null
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
 * Finishes the claim if the request was served or charged, both of which count as success, and releases it if the request was free. If
 * that fails, or if it is unknown whether the request was charged, the claim stays, and the usage row decides about the next request with
 * the key. If the key were released too early, the customer would be charged twice.
 */
async function endClaim(
  { claims, onFault }: CompleteOnceDeps,
  claim: Claim,
  { job }: CompletionRequest,
  { settled, isOutcomeUnknown }: ClaimWatch,
  answer: StoredAnswer | null,
): Promise<void> {
  try {
    if (settled?.success === true) {
      // A client that left before a whole answer may have paid for its input only.
      const mayStore = settled.outcome === 'served' && !job.constraints.privacyMode
      await claims.finish(claim, { costNanos: settled.costNanos, answer: mayStore ? answer : null })
    } else if (!isOutcomeUnknown) {
      await claims.release(claim)
    }
  } catch (fault) {
    onFault(claim.requestId, fault)
  }
}

type Settled = Parameters<SettlementWatch['onSettled']>[0]

class ClaimWatch implements SettlementWatch {
  settled: Settled | undefined
  isOutcomeUnknown = false

  onSettled(settled: Settled): void {
    this.settled = settled
  }

  onOutcomeUnknown(): void {
    this.isOutcomeUnknown = true
  }
}

/** Passes events on and records them, up to ANSWER_BYTES_MAX characters. */
class RecordingSink implements EventSink {
  readonly #events: EventSink
  readonly #recorded: string[] = []
  #chars = 0

  constructor(events: EventSink) {
    this.#events = events
  }

  open(servedBy: ServedBy): Promise<void> {
    return this.#events.open(servedBy)
  }

  readonly write = (events: string): void | Promise<void> => {
    this.#chars += events.length
    if (this.#chars <= ANSWER_BYTES_MAX) this.#recorded.push(events)
    return this.#events.write(events)
  }

  /** Returns the recorded stream if it is complete and not too large to store, otherwise null. */
  complete({ isComplete }: CompletionRequest['dialect']['stream']): string | null {
    const text = this.#recorded.join('')
    return this.#chars <= ANSWER_BYTES_MAX && isComplete(text) ? text : null
  }
}
