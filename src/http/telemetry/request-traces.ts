import { type SpanContext, SpanKind, TraceFlags } from '@opentelemetry/api'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt } from '../../base/domain/handoff.ts'
import { type Offer, passesTraces } from '../../base/domain/offer.ts'
import type { RequestContent } from '../../base/domain/request-content.ts'
import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'
import type { EndedRequest } from '../access-log.ts'
import { errorType, genAi, http, own } from './attributes.ts'
import type { ContentBudget } from './content-budget.ts'
import type { GenAiMetrics } from './gen-ai-metrics.ts'
import { operationName, providerName } from './provider-name.ts'
import type { Sampling } from './sampling.ts'
import { Span, type SpanOrigin, type SpanStart } from './span.ts'
import { addAddress, addAnswer, addRequest, addSettled, contentAttributes, contentLength } from './span-attributes.ts'
import { SpanIds } from './span-ids.ts'
import type { Telemetry } from './telemetry.ts'
import { readTraceParent, type TraceParent, traceLines } from './trace-parent.ts'

export interface RequestTracesDeps {
  readonly origin: SpanOrigin
  readonly sampling: Sampling
  /** Called with each span that has ended. */
  readonly onEnd: (span: Span) => void
  /** Null: no metrics are exported. */
  readonly metrics: GenAiMetrics | null
  /** Pays for recorded prompts and answers in spans. */
  readonly budget: ContentBudget
  readonly clock: Pick<Clock, 'epochMs'>
  readonly close: () => Promise<void>
}

/** The trace of a request that is recorded and has not ended. */
interface Recorded {
  readonly traceId: string
  /** The list `tracestate` of the client; null: none. */
  readonly state: string | null
  readonly span: Span
  /** The attempt that runs, or has answered. */
  attempt: Span | null
  attempts: number
  /** When the answer was settled, since the epoch; null: not yet. */
  settledAtMs: number | null
  content: Promise<RequestContent | null> | null
}

/**
 * One server span for each request that is recorded, and in it one client span for each attempt, which ends with the
 * settlement of what it answered. Metrics count all requests.
 *
 * Most requests are not recorded: nothing is kept or made for these, except the trace of a client that goes on.
 */
export class RequestTraces implements Telemetry {
  readonly #deps: RequestTracesDeps
  readonly #ids = new SpanIds()
  readonly #recorded = new Map<string, Recorded>()
  /** Traces of clients, for requests that are not recorded. */
  readonly #unrecorded = new Map<string, TraceParent>()
  readonly close: () => Promise<void>

  constructor(deps: RequestTracesDeps) {
    this.#deps = deps
    this.close = deps.close
  }

  begun(requestId: string, path: string, rawHeaders: readonly string[], startedAtMs: number): string | null {
    const parent = readTraceParent(rawHeaders)
    if (!this.#deps.sampling.records(parent)) {
      if (parent !== null) this.#unrecorded.set(requestId, parent)
      return null
    }
    const traceId = parent?.traceId ?? ownTraceId(requestId)
    const span = this.#begin({
      name: `POST ${path}`,
      kind: SpanKind.SERVER,
      traceId,
      parent: contextOf(parent),
      startedAtMs,
    })
    const { attributes } = span
    attributes[http.method] = 'POST'
    attributes[http.route] = path
    attributes[own.request] = requestId
    const state = parent?.state ?? null
    this.#recorded.set(requestId, {
      traceId,
      state,
      span,
      attempt: null,
      attempts: 0,
      settledAtMs: null,
      content: null,
    })
    return traceId
  }

  #begin(start: Omit<SpanStart, 'spanId'>): Span {
    return new Span(this.#deps.origin, { ...start, spanId: this.#ids.next() })
  }

  asked(requestId: string, job: ChatJob): void {
    const attributes = this.#recorded.get(requestId)?.span.attributes
    if (attributes === undefined) return
    attributes[own.modelAsked] = job.model
    attributes[own.stream] = job.stream
    attributes[own.tier] = job.constraints.serviceTier
    attributes[own.privacyMode] = job.constraints.privacyMode
  }

  attempted(requestId: string, offer: Offer, job: ChatJob): readonly string[] | undefined {
    const recorded = this.#recorded.get(requestId)
    if (recorded !== undefined) {
      const { spanId } = this.#beginAttempt(recorded, offer, job).spanContext()
      return passesTraces(offer.endpoint) ? traceLines(recorded.traceId, spanId, true, recorded.state) : undefined
    }
    if (!passesTraces(offer.endpoint)) return undefined
    // Without these lines, the server would decide for itself whether it records a trace of its own.
    const parent = this.#unrecorded.get(requestId)
    return traceLines(parent?.traceId ?? ownTraceId(requestId), this.#ids.next(), false, parent?.state ?? null)
  }

  #beginAttempt(recorded: Recorded, offer: Offer, job: ChatJob): Span {
    const { endpoint, upstreamModel } = offer
    const operation = operationName(job, offer)
    const attempt = this.#begin({
      name: `${operation} ${upstreamModel}`,
      kind: SpanKind.CLIENT,
      traceId: recorded.traceId,
      parent: recorded.span.spanContext(),
      startedAtMs: this.#deps.clock.epochMs(),
    })
    const { attributes } = attempt
    attributes[genAi.operation] = operation
    attributes[genAi.provider] = providerName(endpoint)
    attributes[genAi.requestModel] = upstreamModel
    addAddress(attributes, endpoint)
    addRequest(attributes, job)
    attributes[own.attempt] = ++recorded.attempts
    attributes[own.offer] = offer.offerId
    attributes[own.endpoint] = endpoint.endpointId
    attributes[own.providerKind] = endpoint.kind
    if (endpoint.hosterId !== null) attributes[own.hoster] = endpoint.hosterId
    recorded.attempt = attempt
    return attempt
  }

  failed(requestId: string, { outcome, status }: Pick<UpstreamFailure, 'outcome' | 'status'>): void {
    const recorded = this.#recorded.get(requestId)
    if (recorded === undefined || recorded.attempt === null) return
    const { attributes } = recorded.attempt
    attributes[own.attemptOutcome] = outcome
    attributes[errorType] = outcome
    if (status !== null) attributes[http.status] = status
    recorded.attempt.fail(outcome)
    this.#end(recorded.attempt)
    recorded.attempt = null
  }

  settled(settlement: Settlement, receipt: Receipt, job: ChatJob): void {
    this.#deps.metrics?.add(settlement, receipt, job)
    const recorded = this.#recorded.get(settlement.requestId)
    if (recorded === undefined) return
    const { span, attempt } = recorded
    addSettled(span.attributes, settlement, receipt)
    if (attempt === null) return
    addAnswer(attempt.attributes, settlement, receipt, job)
    attempt.attributes[own.attemptOutcome] = 'answered'
    // It ends in `ended`, which knows whether its content is awaited.
    recorded.settledAtMs = this.#deps.clock.epochMs()
    if (settlement.success) return
    attempt.attributes[errorType] = settlement.outcome
    attempt.fail(settlement.outcome)
  }

  readonly awaitContent = (requestId: string, content: Promise<RequestContent | null>): void => {
    const recorded = this.#recorded.get(requestId)
    if (recorded?.attempt) recorded.content = content
  }

  ended({ requestId, status, code, caller }: EndedRequest): void {
    const recorded = this.#recorded.get(requestId)
    if (recorded === undefined) {
      this.#unrecorded.delete(requestId)
      return
    }
    this.#recorded.delete(requestId)
    const { span, attempt } = recorded
    if (attempt !== null) this.#endAttempt(attempt, recorded)
    const { attributes } = span
    attributes[http.status] = status
    if (caller !== undefined) {
      attributes[own.customer] = caller.customerId
      attributes[own.key] = caller.keyId
    }
    if (code !== null) {
      attributes[own.errorCode] = code
      attributes[errorType] = code
      // Refusals with a status below 500 are no errors of the gateway. The error of a stream follows a status of 200.
      if (status >= 500 || status < 400) span.fail(code)
    }
    this.#end(span)
  }

  #endAttempt(attempt: Span, { settledAtMs, content }: Recorded): void {
    if (settledAtMs === null) {
      attempt.attributes[errorType] = '_OTHER'
      attempt.fail('not settled')
      this.#end(attempt)
    } else if (content === null) this.#end(attempt, settledAtMs)
    else {
      void content.then(text => {
        const attributes = text === null ? {} : contentAttributes(text)
        if (this.#deps.budget.take(contentLength({ attributes }))) Object.assign(attempt.attributes, attributes)
        this.#end(attempt, settledAtMs)
      })
    }
  }

  #end(span: Span, endedAtMs = this.#deps.clock.epochMs()): void {
    span.end(endedAtMs)
    this.#deps.onEnd(span)
  }

  readonly traceIdOf = (requestId: string): string | null => this.#recorded.get(requestId)?.traceId ?? null
}

function contextOf(parent: TraceParent | null): SpanContext | undefined {
  if (parent === null) return undefined
  const { traceId, spanId, isSampled } = parent
  return { traceId, spanId, traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE, isRemote: true }
}

/** The id of a trace that begins here is that of its request, so that nobody has to look it up. */
function ownTraceId(requestId: string): string {
  return requestId.replaceAll('-', '')
}
