import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import { type Offer, passesTraces } from '../../base/domain/offer.ts'
import type { RequestContent } from '../../base/domain/request-content.ts'
import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import type { EndedRequest } from '../access-log.ts'
import { errorType, genAi, http, own } from './attributes.ts'
import type { ContentBudget } from './content-budget.ts'
import type { GenAiMetrics } from './gen-ai-metrics.ts'
import { operationName, providerName } from './provider-name.ts'
import type { Sampling } from './sampling.ts'
import {
  addressOf,
  answerAttributes,
  contentAttributes,
  contentLength,
  requestAttributes,
  settledAttributes,
} from './span-attributes.ts'
import type { TraceIds } from './span-ids.ts'
import type { Telemetry } from './telemetry.ts'
import { readTraceParent, type TraceParent, traceLines } from './trace-parent.ts'

export interface RequestTracesDeps {
  readonly tracer: Tracer
  readonly ids: TraceIds
  readonly sampling: Sampling
  /** Null: no metrics are exported. */
  readonly metrics: GenAiMetrics | null
  /** Pays for recorded prompts and answers in spans. */
  readonly budget: ContentBudget
  readonly close: () => Promise<void>
}

/** A request that has begun and not ended. */
interface Running {
  readonly traceId: string
  /** The trace of the client; null: none. */
  readonly parent: TraceParent | null
  /** Null: the request is not recorded. */
  readonly span: Span | null
  /** The attempt that runs, or has answered. */
  attempt: Span | null
  attempts: number
  operation: string
  isStream: boolean
  /** When the answer was settled, since the epoch; null: not yet. */
  settledAtMs: number | null
  content: Promise<RequestContent | null> | null
}

/**
 * One server span for each request that is recorded, and in it one client span for each attempt, which ends with the
 * settlement of what it answered. Metrics count all requests.
 */
export class RequestTraces implements Telemetry {
  readonly #deps: RequestTracesDeps
  readonly #running = new Map<string, Running>()
  readonly close: () => Promise<void>

  constructor(deps: RequestTracesDeps) {
    this.#deps = deps
    this.close = deps.close
  }

  begun(requestId: string, path: string, rawHeaders: readonly string[], startedAtMs: number): string | null {
    const parent = readTraceParent(rawHeaders)
    const traceId = parent?.traceId ?? requestId.replaceAll('-', '')
    const isRecorded = this.#deps.sampling.records(parent)
    const span = isRecorded ? this.#serverSpan({ requestId, path, traceId, parent, startedAtMs }) : null
    this.#running.set(requestId, {
      traceId,
      parent,
      span,
      attempt: null,
      attempts: 0,
      operation: 'chat',
      isStream: false,
      settledAtMs: null,
      content: null,
    })
    return isRecorded ? traceId : null
  }

  #serverSpan({
    requestId,
    path,
    traceId,
    parent,
    startedAtMs,
  }: Pick<Running, 'traceId' | 'parent'> & { requestId: string; path: string; startedAtMs: number }): Span {
    const { tracer, ids } = this.#deps
    ids.next = traceId
    const attributes = { [http.method]: 'POST', [http.route]: path, [own.request]: requestId }
    const context =
      parent === null
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId,
            spanId: parent.spanId,
            traceFlags: parent.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
            isRemote: true,
          })
    const options = { kind: SpanKind.SERVER, attributes, startTime: startedAtMs }
    return tracer.startSpan(`POST ${path}`, options, context)
  }

  asked(requestId: string, job: ChatJob): void {
    const running = this.#running.get(requestId)
    if (running === undefined) return
    running.isStream = job.stream
    running.operation = operationName(job, null)
    running.span?.setAttributes({
      [own.modelAsked]: job.model,
      [own.stream]: job.stream,
      [own.tier]: job.constraints.serviceTier,
      [own.privacyMode]: job.constraints.privacyMode,
    })
  }

  attempted(requestId: string, offer: Offer, job: ChatJob): readonly string[] | undefined {
    const running = this.#running.get(requestId)
    if (running === undefined) return undefined
    running.operation = operationName(job, offer)
    running.attempts++
    if (running.span !== null) running.attempt = this.#attemptSpan(running, running.span, offer, job)
    if (!passesTraces(offer.endpoint)) return undefined
    const spanId = running.attempt?.spanContext().spanId ?? this.#deps.ids.generateSpanId()
    return traceLines(running.traceId, spanId, running.span !== null, running.parent?.state ?? null)
  }

  #attemptSpan({ operation, attempts }: Running, parent: Span, offer: Offer, job: ChatJob): Span {
    const { endpoint, upstreamModel } = offer
    const attributes: Attributes = {
      [genAi.operation]: operation,
      [genAi.provider]: providerName(endpoint),
      [genAi.requestModel]: upstreamModel,
      ...addressOf(endpoint),
      ...requestAttributes(job),
      [own.attempt]: attempts,
      [own.offer]: offer.offerId,
      [own.endpoint]: endpoint.endpointId,
      [own.providerKind]: endpoint.kind,
      ...(endpoint.hosterId !== null && { [own.hoster]: endpoint.hosterId }),
    }
    const context = trace.setSpan(ROOT_CONTEXT, parent)
    return this.#deps.tracer.startSpan(`${operation} ${upstreamModel}`, { kind: SpanKind.CLIENT, attributes }, context)
  }

  failed(requestId: string, { outcome, status }: Pick<UpstreamFailure, 'outcome' | 'status'>): void {
    const running = this.#running.get(requestId)
    if (running === undefined || running.attempt === null) return
    running.attempt.setAttributes({
      [own.attemptOutcome]: outcome,
      [errorType]: outcome,
      ...(status !== null && { [http.status]: status }),
    })
    endWithError(running.attempt, outcome)
    running.attempt = null
  }

  settled(settlement: Settlement, receipt: Receipt): void {
    const running = this.#running.get(settlement.requestId)
    this.#deps.metrics?.add({
      operation: running?.operation ?? 'chat',
      provider: receipt.offer === null ? null : providerName(receipt.offer.endpoint),
      model: settlement.modelId,
      inputTokens: settlement.inputTokens,
      outputTokens: settlement.outputTokens,
      durationS: settlement.latencyMs / 1_000,
      firstChunkS: running?.isStream && settlement.firstTokenMs !== null ? settlement.firstTokenMs / 1_000 : null,
      error: settlement.success ? null : settlement.outcome,
    })
    if (running === undefined || running.span === null) return
    running.span.setAttributes(settledAttributes(settlement, receipt))
    if (running.attempt === null) return
    running.attempt.setAttributes({
      ...answerAttributes(settlement, receipt, running.isStream),
      [own.attemptOutcome]: 'answered',
    })
    // It ends in `ended`, which knows whether its content is awaited. By the SDK's clock, which noted its start.
    running.settledAtMs = Date.now()
    if (settlement.success) return
    running.attempt.setAttribute(errorType, settlement.outcome)
    running.attempt.setStatus({ code: SpanStatusCode.ERROR, message: settlement.outcome })
  }

  readonly awaitContent = (requestId: string, content: Promise<RequestContent | null>): void => {
    const running = this.#running.get(requestId)
    if (running?.attempt) running.content = content
  }

  ended({ requestId, status, code, caller }: EndedRequest): void {
    const running = this.#running.get(requestId)
    if (running === undefined) return
    this.#running.delete(requestId)
    const { span, attempt } = running
    if (span === null) return
    if (attempt !== null) endAttempt(attempt, running, this.#deps.budget)
    span.setAttributes({
      [http.status]: status,
      ...(caller !== undefined && { [own.customer]: caller.customerId, [own.key]: caller.keyId }),
      ...(code !== null && { [own.errorCode]: code, [errorType]: code }),
    })
    // Refusals with a status below 500 are no errors of the gateway. The error of a stream follows a status of 200.
    if (code !== null && (status >= 500 || status < 400)) endWithError(span, code)
    else span.end()
  }

  readonly traceIdOf = (requestId: string): string | null => {
    const running = this.#running.get(requestId)
    return running === undefined || running.span === null ? null : running.traceId
  }
}

function endAttempt(attempt: Span, { settledAtMs, content }: Running, budget: ContentBudget): void {
  if (settledAtMs === null) {
    attempt.setAttribute(errorType, '_OTHER')
    endWithError(attempt, 'not settled')
  } else if (content === null) attempt.end(settledAtMs)
  else {
    void content.then(recorded => {
      const attributes = recorded === null ? {} : contentAttributes(recorded)
      if (budget.take(contentLength({ attributes }))) attempt.setAttributes(attributes)
      attempt.end(settledAtMs)
    })
  }
}

function endWithError(span: Span, message: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message })
  span.end()
}
