import type { AnswerEvent, UsageParts } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import type { EventEncoder } from '../translated-stream.ts'
import { AnswerBlocks, type BlockSink, type ReasoningDisplay } from './answer-blocks.ts'
import { messagesErrorEvent } from './messages-error-body.ts'
import { messagesUsage } from './messages-usage.ts'

/** Keeps proxies from closing a silent connection; SDKs ignore it. */
export const PING_EVENT = serverSentEvent({ type: 'ping' })

/** The last event of a complete stream. A stream that failed ends without it. */
export const STOP_EVENT = serverSentEvent({ type: 'message_stop' })

/**
 * Encodes the events of one answer as server-sent events of `POST /v1/messages`. Each returned text consists of whole
 * events, often none.
 */
export class MessagesEncoder implements BlockSink, EventEncoder {
  readonly #envelope: Envelope
  readonly #inputTokens: number
  readonly #blocks: AnswerBlocks
  #index = -1
  /** What comes before the text in a delta of the open text block. */
  #textHead = ''
  #pending = ''

  /** @param inputTokens the gateway's own count of the prompt, which the first event reports */
  constructor(envelope: Envelope, inputTokens: number, display: ReasoningDisplay) {
    this.#envelope = envelope
    this.#inputTokens = inputTokens
    this.#blocks = new AnswerBlocks(this, display)
  }

  /** Returns the first events, which come before any content. */
  begin(): string {
    const usage = messagesUsage({ ...noTokens, freshTokens: this.#inputTokens })
    const message = { ...emptyMessage(this.#envelope), usage }
    return serverSentEvent({ type: 'message_start', message }) + PING_EVENT
  }

  /** Encodes the next text, which most events carry. */
  text(content: string): string {
    if (this.#blocks.isInText) return this.#textHead + JSON.stringify(content) + TEXT_TAIL
    this.#blocks.text(content)
    return this.#take()
  }

  /** Encodes an event. The finish and the usage are written by `end`. */
  event(event: AnswerEvent): string {
    if (event.kind === 'text') return this.text(event.text)
    this.#blocks.push(event)
    return this.#take()
  }

  /** Ends a successful stream. `extra` are more keys of the usage, such as the cost. */
  end(usage: UsageParts, extra: JsonObject = {}): string {
    this.#blocks.end()
    const delta = { ...this.#blocks.ending, stop_details: null, container: null }
    const last = serverSentEvent({ type: 'message_delta', delta, usage: { ...messagesUsage(usage), ...extra } })
    return this.#take() + last + STOP_EVENT
  }

  /** Ends a stream that failed. */
  fail(error: ApiError): string {
    return messagesErrorEvent(error, requestIdOf(this.#envelope))
  }

  start(block: JsonObject): void {
    this.#index += 1
    this.#pending += serverSentEvent({ type: 'content_block_start', index: this.#index, content_block: block })
    this.#textHead = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":{"type":"text_delta","text":`
  }

  delta(delta: JsonObject): void {
    this.#pending += serverSentEvent({ type: 'content_block_delta', index: this.#index, delta })
  }

  stop(): void {
    this.#pending += serverSentEvent({ type: 'content_block_stop', index: this.#index })
  }

  #take(): string {
    const events = this.#pending
    this.#pending = ''
    return events
  }
}

const TEXT_TAIL = '}}\n\n'

const noTokens: UsageParts = {
  freshTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWriteLongTokens: 0,
  outputTokens: 0,
  reasoningTokens: null,
}

function serverSentEvent(data: JsonObject & { type: string }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Starts the id of an answer in the dialect chat. */
const CHAT_PREFIX = /^chatcmpl-/

/** Returns a message without content, ending and usage. Its id contains the id of the request, as in chat. */
export function emptyMessage({ id, model }: Envelope): JsonObject {
  return {
    id: `msg_${requestIdOf({ id })}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
  }
}

/** Returns the id of the request that the id of an answer contains. */
export function requestIdOf({ id }: Pick<Envelope, 'id'>): string {
  return id.replace(CHAT_PREFIX, '')
}
