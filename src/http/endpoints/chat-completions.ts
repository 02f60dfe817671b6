import { randomUUIDv7 } from 'node:crypto'
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Authenticator } from '../../auth/authenticate.ts'
import type { Completed } from '../../chat/complete.ts'
import type { Caller } from '../../domain/caller.ts'
import type { ChatJob } from '../../domain/chat-job.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Ticket } from '../../domain/handoff.ts'
import type { Offer } from '../../domain/offer.ts'
import type { StopSignal } from '../../domain/stop-signal.ts'
import type { WindowCounts } from '../../domain/windows.ts'
import { failpoint } from '../../failpoint.ts'
import { rateLimitHeaders, type WindowView } from '../../quota/window-view.ts'
import { chatCompletionSchema } from '../../wire/chat-completion-schema.ts'
import { parseChatRequest } from '../../wire/chat-request.ts'
import { chatRequestSchema } from '../../wire/chat-request-schema.ts'
import { type Envelope, envelopeOf } from '../../wire/envelope.ts'
import { errorBody } from '../../wire/error-body.ts'
import { encodeErrorChunk, PING } from '../../wire/sse-encode.ts'
import { corsHeaders } from '../cors.ts'
import type { RawEndpoint } from '../endpoint.ts'
import type { InFlight, Running } from '../in-flight.ts'
import { receiveBody } from '../receive-body.ts'
import { requireHost } from '../require-host.ts'
import { errorHeaders, isFault, toApiError } from '../respond-error.ts'

export interface ChatEndpointDeps {
  readonly complete: (caller: Caller, job: ChatJob, requestId: string, signal: StopSignal) => Promise<Completed>
  readonly authenticate: Authenticator['authenticate']
  readonly windows: WindowView
  readonly inFlight: InFlight
  readonly bodyLimitBytes: number
  /** The part of a pino logger that is used. */
  readonly log: { error(facts: object, message: string): void }
  readonly clock: Clock
  /** Silence on an event stream is broken by a comment after this time: proxies cut quiet connections after 60 to 125 s. */
  readonly pingMs: number
  /** A reader that takes nothing for this long while we wait to write is cut off. */
  readonly slowReaderMs: number
}

/** POST /v1/chat/completions. */
export function chatCompletions(deps: ChatEndpointDeps): RawEndpoint {
  return {
    method: 'POST',
    path: '/v1/chat/completions',
    access: 'key',
    doc: {
      operationId: 'createChatCompletion',
      tag: 'Chat',
      summary: 'Create a chat completion',
      body: chatRequestSchema,
      response: {
        contentType: 'application/json',
        schema: chatCompletionSchema,
        description:
          'The completion, or with `stream: true` server-sent events of `chat.completion.chunk` objects ending with `data: [DONE]`.',
      },
    },
    async serve(request, out) {
      const requestId = randomUUIDv7()
      const startedMs = deps.clock.monotonicMs()
      let caller: Caller | undefined
      let running: Running | undefined
      // The request's own 'close' fires as soon as its body is read; only the response knows whether the client left.
      out.once('close', () => {
        if (!out.writableFinished) running?.abort('client_gone')
      })
      const headers = (): OutgoingHttpHeaders | Promise<OutgoingHttpHeaders> => {
        const counts = caller && deps.windows.current(caller)
        return counts instanceof Promise ? counts.then(headersWith) : headersWith(counts)
      }
      const headersWith = (counts: WindowCounts | undefined): OutgoingHttpHeaders => ({
        'x-request-id': requestId,
        ...(request.headers.origin !== undefined && corsHeaders),
        ...(counts && rateLimitHeaders(caller!.limits, counts, deps.clock.epochMs())),
        ...(counts && { 'openai-processing-ms': String(Math.round(deps.clock.monotonicMs() - startedMs)) }),
        // A gateway that stops wants no further request on this connection.
        ...(deps.inFlight.isClosed && { connection: 'close' }),
      })
      try {
        requireHost(request)
        const found = deps.authenticate(request.rawHeaders)
        caller = found instanceof Promise ? await found : found
        const body = await receiveBody(request, deps.bodyLimitBytes)
        running = deps.inFlight.enter()
        if (running.refusal) throw running.refusal
        failpoint('chat-authenticated')
        const job = parseChatRequest(body)
        const completing = deps.complete(caller, job, requestId, running.signal)
        if (!job.stream) sendWhole(out, await completing, await headers())
        else
          await sendStream(deps, {
            out,
            completing,
            headers,
            signal: running.signal,
            envelope: envelopeOf({ requestId, startedAtEpochMs: deps.clock.epochMs() }, job.model),
          })
        failpoint('answer-sent')
      } catch (thrown) {
        const error = toApiError(thrown)
        if (isFault(error) && !running?.signal.aborted) {
          deps.log.error({ requestId, err: error.internal ?? thrown, code: error.code }, 'chat request failed')
        }
        if (!out.headersSent && !out.destroyed) {
          const body = errorBody(error)
          const all = Object.assign(await headers(), jsonHeaders(body), errorHeaders(error))
          // Node reads the rest of a refused body, so that the connection can serve again; not of one that may never end.
          if (error.code === 'request_too_large') all.connection = 'close'
          out.writeHead(error.row.status, all).end(body)
        } else if (!out.writableEnded) {
          out.destroy()
        }
      } finally {
        running?.leave()
      }
    },
  }
}

type HeadersOf = () => OutgoingHttpHeaders | Promise<OutgoingHttpHeaders>

function sendWhole(out: ServerResponse, { ticket, offer, delivery }: Completed, headers: OutgoingHttpHeaders): void {
  if (delivery.kind !== 'whole') throw new Error('a stream was made for a request that asked for none')
  out.writeHead(200, Object.assign(headers, jsonHeaders(delivery.body), servedBy(ticket, offer))).end(delivery.body)
}

interface StreamToSend {
  readonly out: ServerResponse
  readonly completing: Promise<Completed>
  readonly headers: HeadersOf
  readonly signal: StopSignal
  /** For an error chunk when nobody answered. */
  readonly envelope: Envelope
}

/**
 * Sends the status only when the first content is there, so that failures before it have their true status; after `pingMs` of
 * waiting the stream is opened with a comment instead, and failures become error chunks.
 */
async function sendStream(
  deps: ChatEndpointDeps,
  { out, completing, headers, signal, envelope }: StreamToSend,
): Promise<void> {
  const opening = streamOpening(out, deps.pingMs, headers)
  try {
    const { ticket, offer, delivery } = await completing
    if (delivery.kind !== 'stream') throw new Error('no stream was made for a request that asked for one')
    await opening.open(servedBy(ticket, offer)).catch(() => out.destroy())
    // Also when the socket is gone: only a stream that was begun settles its request.
    await delivery.sendTo(frames => {
      if (out.destroyed) return
      opening.postponePing()
      if (!out.write(frames)) return drained(out, signal, deps.slowReaderMs)
    })
    out.end()
  } catch (thrown) {
    if (!opening.isOpen) throw thrown
    if (!out.destroyed) out.end(encodeErrorChunk(envelope, toApiError(thrown)))
  } finally {
    opening.stopPings()
  }
}

/**
 * Resolves when the socket takes more, or when the signal says that the client is gone or the gateway stops: the frames end by
 * themselves then. A reader that stays blocked is cut off, which ends the stream as a client that left.
 */
function drained(out: ServerResponse, signal: StopSignal, slowReaderMs: number): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const timer = setTimeout(() => out.destroy(), slowReaderMs)
    const done = () => {
      clearTimeout(timer)
      out.off('drain', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    out.on('drain', done)
    signal.addEventListener('abort', done)
  })
}

/** Opens the stream once, whoever asks first: the answer, or the ping that cannot wait for it any longer. */
function streamOpening(out: ServerResponse, pingMs: number, headers: HeadersOf) {
  let opened: Promise<void> | undefined
  const open = (more: Record<string, string>) => {
    opened ??= writeHead(more)
    return opened
  }
  const writeHead = async (more: Record<string, string>) => {
    const all = Object.assign(await headers(), streamHeaders, more)
    if (!out.destroyed) out.writeHead(200, all)
  }
  const ping = async () => {
    await open({})
    if (!out.destroyed && !out.writableNeedDrain) out.write(PING)
  }
  const timer = setInterval(() => void ping().catch(() => out.destroy()), pingMs)
  return {
    open,
    get isOpen() {
      return opened !== undefined
    },
    postponePing: () => timer.refresh(),
    stopPings: () => clearInterval(timer),
  }
}

function jsonHeaders(body: string): Record<string, string> {
  return { 'content-type': 'application/json; charset=utf-8', 'content-length': String(Buffer.byteLength(body)) }
}

const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // nginx buffers event streams unless told not to.
  'x-accel-buffering': 'no',
}

function servedBy({ clampedFrom, maxTokens }: Ticket, { endpoint }: Offer): Record<string, string> {
  return {
    'x-switchyard-provider': endpoint.kind,
    ...(endpoint.hosterId === null ? {} : { 'x-switchyard-hoster': endpoint.hosterId }),
    ...(clampedFrom === null ? {} : { 'x-switchyard-max-tokens': String(maxTokens) }),
  }
}
