import { ApiError } from '../base/domain/errors.ts'
import type { ByteAccount } from '../base/runtime/counted-memory.ts'
import { endOfTurn, type Scheduler } from '../base/runtime/scheduler.ts'
import type { GenerationRequest } from './generation-exchange.ts'

type BodyRequest = Pick<GenerationRequest, 'header' | 'readBody'>

/**
 * Reads the body of a JSON request; returns an empty buffer when there is none. Rejects with
 * `unsupported_media_type`, and with the errors of `readBody`.
 */
export function receiveBody(request: BodyRequest, limitBytes: number, memory: ByteAccount): Promise<Buffer> {
  const hasNoBody =
    request.header('transfer-encoding') === undefined && (request.header('content-length') ?? '0') === '0'
  const contentType = request.header('content-type') ?? (hasNoBody ? JSON_TYPE : '')
  if (!isJson(contentType)) {
    return Promise.reject(new ApiError('unsupported_media_type', { param: 'Content-Type' }))
  }
  const refusal = codingRefusal(request.header('content-encoding') ?? '') ?? charsetRefusal(contentType)
  return refusal === undefined ? request.readBody(limitBytes, memory) : Promise.reject(refusal)
}

const JSON_TYPE = 'application/json'

function isJson(contentType: string): boolean {
  return contentType === JSON_TYPE || /^application\/json\s*(;|$)/i.test(contentType)
}

function codingRefusal(encoding: string): ApiError | undefined {
  if (encoding === '' || encoding.toLowerCase() === 'identity') return undefined
  const message = `The Content-Encoding "${encoding.slice(0, 40)}" is not supported. Send the body uncompressed.`
  return new ApiError('unsupported_media_type', { param: 'Content-Encoding', message })
}

/** Refuses a charset other than UTF-8: decoding such a body would be a guess. */
function charsetRefusal(contentType: string): ApiError | undefined {
  if (contentType === JSON_TYPE) return undefined
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType)?.[1]
  if (charset === undefined || /^utf-?8$/i.test(charset)) return undefined
  const message = `The charset "${charset.slice(0, 40)}" is not supported. Send the body in UTF-8.`
  return new ApiError('unsupported_media_type', { param: 'Content-Type', message })
}

/** The error for a body above the limit. */
export function bodyTooLarge(limitBytes: number): ApiError {
  const message = `The request body is larger than ${sizeText(limitBytes)}. Shorten it, or send images by URL.`
  return new ApiError('request_too_large', { message })
}

function sizeText(bytes: number): string {
  if (bytes % 0x100000 === 0) return `${bytes / 0x100000} MiB`
  return bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`
}

/**
 * Smaller bodies come through the plain server. Most bodies of this size take about 1 ms, histories of many calls 20
 * ms.
 */
const LARGE_BODY_BYTES = 65_536
/** Large bodies leave this part of the time to all other work of the process. */
const PAUSE_SHARE = 0.25
const PAUSE_MS_MAX = 100
/**
 * How long the next large body of a customer waits, as a multiple of the work for the last one: it gets a third of the
 * time.
 */
const CUSTOMER_PAUSE_SHARE = 2
/** A longer time was a stall of the machine. */
const WORK_MS_MAX = 500
/** Shorter work is not noted, so that a usual request costs nothing here. */
const NOTED_MS_MIN = 1

/** Decides when the body of a request is parsed. */
export interface BodyTurns {
  /** Resolves when a body of this size may be parsed, at the end of a turn of the event loop. */
  next(bodyBytes: number, customerId: string): Promise<void>
  /** Notes work for a request, such as its translation for a server. In the turn of its body it is measured anyway. */
  noteWork(customerId: string, workMs: number): void
}

/**
 * Small bodies are parsed at the end of the turn in which they arrived. Large ones are parsed one at a time, with a
 * pause after each, and customers take turns. A body of 8 MB takes 0.2 s. Sixty of them in one turn kept the event loop
 * busy for so long that connections and statements of other requests exceeded their time limits.
 *
 * The time that a request held the event loop is measured, because bytes do not show it: 500 kB of tool calls take 40
 * times as long as 500 kB of text. The customer's next large body waits in proportion, also when the request was free.
 */
export function createBodyTurns(scheduler: Pick<Scheduler, 'after' | 'soon' | 'monotonicMs'>): BodyTurns {
  /** The customers with a large body that waits, or with a pause. */
  const lines = new Map<string, CustomerLine>()
  /** Lines that may have a body parsed now, in the order of their turns. */
  const ready: CustomerLine[] = []
  let isBusy = false
  /** When the current turn began; null between turns. */
  let startMs: number | null = null

  const lineOf = (customerId: string): CustomerLine => {
    const known = lines.get(customerId)
    if (known !== undefined) return known
    const line: CustomerLine = { customerId, bodies: [], readyAtMs: 0, isQueued: false }
    lines.set(customerId, line)
    return line
  }

  /** Queues the customer, once its pause is over; forgets it if nothing waits then. */
  const queue = (line: CustomerLine) => {
    line.isQueued = true
    const pauseMs = line.readyAtMs - scheduler.monotonicMs()
    if (pauseMs > 0) scheduler.after(pauseMs, () => queue(line))
    else if (line.bodies.length === 0) lines.delete(line.customerId)
    else {
      ready.push(line)
      if (!isBusy) parseNext()
    }
  }

  const note = (line: CustomerLine, workMs: number) => {
    const pauseMs = Math.min(workMs, WORK_MS_MAX) * CUSTOMER_PAUSE_SHARE
    line.readyAtMs = Math.max(line.readyAtMs, scheduler.monotonicMs()) + pauseMs
  }

  const parseNext = () => {
    const line = ready.shift()
    isBusy = line !== undefined
    if (line === undefined) return
    scheduler.soon(() => {
      startMs = scheduler.monotonicMs()
      line.bodies.shift()!()
    })
    // The request runs as far as it can before this callback, which follows in the same turn of the event loop.
    scheduler.soon(() => {
      const workMs = scheduler.monotonicMs() - startMs!
      startMs = null
      note(line, workMs)
      queue(line)
      scheduler.after(Math.min(workMs * PAUSE_SHARE, PAUSE_MS_MAX), parseNext)
    })
  }

  return {
    next: (bodyBytes, customerId) =>
      new Promise(resolve => {
        if (bodyBytes < LARGE_BODY_BYTES) return endOfTurn(resolve)
        const line = lineOf(customerId)
        line.bodies.push(resolve)
        if (!line.isQueued) queue(line)
      }),
    noteWork(customerId, workMs) {
      if (workMs < NOTED_MS_MIN || startMs !== null) return
      const line = lineOf(customerId)
      note(line, workMs)
      if (!line.isQueued) queue(line)
    },
  }
}

interface CustomerLine {
  readonly customerId: string
  /** The large bodies that wait, oldest first. */
  readonly bodies: (() => void)[]
  /** When the next one may be parsed. */
  readyAtMs: number
  /** Whether the customer is in `ready`, or a timer will queue it. */
  isQueued: boolean
}
