import type { AnswerEvent, UsageParts } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { classifyError } from '../chat/classify-error.ts'
import { parseStreamEvent } from '../chat/upstream-chunk.ts'
import { readUpstreamError } from '../chat/upstream-error.ts'
import type { AnswerDecoder } from '../event-normaliser.ts'
import { parseUpstreamObject } from '../json/parse-json.ts'
import { messageToAnswer } from '../messages/message-to-answer.ts'
import { MessagesDecoder } from '../messages/messages-decoder.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { ClientToolCalls } from '../translated-stream.ts'

/** The statuses of the exceptions that end a stream. Others count as 500. */
const exceptionStatuses: Readonly<Record<string, number>> = {
  throttlingException: 429,
  validationException: 400,
  serviceUnavailableException: 503,
}

/**
 * Turns the events of one Converse stream into answer events, by way of those of Anthropic's messages, which differ
 * from them in little more than names. Holds the state of one stream and cannot be reused.
 */
export class ConverseDecoder implements AnswerDecoder {
  // Every event is parsed.
  readonly textFields = []
  readonly textTarget = null
  readonly #messages: MessagesDecoder
  readonly #calls: ClientToolCalls | null
  /** The blocks of reasoning that have started: only those of calls are announced. */
  readonly #reasoning = new Set<unknown>()
  #isReported = false

  /**
   * @param delimitersMax the most delimiters in one event
   * @param calls gives calls their names back; null if they have them
   */
  constructor(delimitersMax: number, calls: ClientToolCalls | null) {
    this.#messages = new MessagesDecoder(delimitersMax)
    this.#calls = calls
  }

  get delimitersMax(): number {
    return this.#messages.delimitersMax
  }

  get delimiters(): number {
    return this.#messages.delimiters
  }

  set delimiters(count: number) {
    this.#messages.delimiters = count
  }

  get usage(): UsageParts | null {
    return this.#messages.usage
  }

  /** The usage comes after the end of the answer. */
  get done(): boolean {
    return this.complete && this.#isReported
  }

  get complete(): boolean {
    return this.#messages.complete
  }

  /** Throws UpstreamFailure for exceptions and malformed JSON. */
  push(event: SseEvent): AnswerEvent[] {
    const body = parseStreamEvent(event, this)
    if (event.event.startsWith('error:')) {
      const name = event.event.slice('error:'.length)
      const status = (Object.hasOwn(exceptionStatuses, name) ? exceptionStatuses[name] : undefined) ?? 500
      throw classifyError(status, { ...readUpstreamError(body, true), type: name })
    }
    return this.#named(this.#translate(event.event, body).flatMap(each => this.#messages.read(each)))
  }

  /** Throws UpstreamFailure if the stream broke off. */
  end(): AnswerEvent[] {
    return this.#named(this.#messages.end())
  }

  #named(events: AnswerEvent[]): AnswerEvent[] {
    const calls = this.#calls
    return calls === null ? events : events.flatMap(event => calls.push(event))
  }

  #translate(type: string, body: JsonObject): JsonObject[] {
    const { contentBlockIndex: index, start, delta } = body
    // Only the usage may come after the end of the answer.
    if (this.complete && type !== 'metadata') return []
    switch (type) {
      case 'contentBlockStart':
        return isJsonObject(start) && isJsonObject(start.toolUse)
          ? [{ type: 'content_block_start', index, content_block: toolUse(start.toolUse) }]
          : []
      case 'contentBlockDelta':
        return isJsonObject(delta) ? this.#translateDelta(index, delta) : []
      case 'contentBlockStop':
        return [{ type: 'content_block_stop', index }]
      case 'messageStop':
        return [{ type: 'message_delta', delta: { stop_reason: stopReason(body.stopReason) } }]
      case 'metadata':
        this.#isReported = true
        return [{ type: 'message_delta', usage: usageOf(body) }]
      default:
        return []
    }
  }

  #translateDelta(index: unknown, { text, toolUse: call, reasoningContent: reasoning }: JsonObject): JsonObject[] {
    const delta = (each: JsonObject) => ({ type: 'content_block_delta', index, delta: each })
    if (typeof text === 'string') return [delta({ type: 'text_delta', text })]
    if (isJsonObject(call)) return [delta({ type: 'input_json_delta', partial_json: call.input })]
    if (!isJsonObject(reasoning)) return []
    const { text: thinking, signature, redactedContent: data } = reasoning
    if (typeof data === 'string') {
      return [{ type: 'content_block_start', index, content_block: { type: 'redacted_thinking', data } }]
    }
    const events: JsonObject[] = []
    if (!this.#reasoning.has(index)) {
      this.#reasoning.add(index)
      events.push({ type: 'content_block_start', index, content_block: { type: 'thinking', thinking: '' } })
    }
    if (typeof thinking === 'string') events.push(delta({ type: 'thinking_delta', thinking }))
    if (typeof signature === 'string') events.push(delta({ type: 'signature_delta', signature }))
    return events
  }
}

/** Reads a whole Converse answer (status 200). Throws UpstreamFailure: `malformed` if it is none. */
export function readConverseAnswer(text: string, calls: ClientToolCalls | null, delimitersMax: number): AnswerEvent[] {
  const answer = parseUpstreamObject(text, delimitersMax)
  const { output, stopReason: reason } = answer
  const message = isJsonObject(output) && isJsonObject(output.message) ? output.message : {}
  if (!Array.isArray(message.content)) throw new UpstreamFailure('malformed', 'The answer has no content.')
  const content = message.content.flatMap(block => (isJsonObject(block) ? contentBlock(block) : []))
  const events = messageToAnswer({ content, stop_reason: stopReason(reason), usage: usageOf(answer) })
  return calls === null ? events : events.flatMap(event => calls.push(event))
}

function contentBlock({ text, toolUse: call, reasoningContent: reasoning }: JsonObject): JsonObject[] {
  if (typeof text === 'string') return [{ type: 'text', text }]
  if (isJsonObject(call)) return [toolUse(call)]
  if (!isJsonObject(reasoning)) return []
  if (typeof reasoning.redactedContent === 'string') {
    return [{ type: 'redacted_thinking', data: reasoning.redactedContent }]
  }
  const { text: thinking, signature } = isJsonObject(reasoning.reasoningText) ? reasoning.reasoningText : {}
  return [{ type: 'thinking', thinking, signature }]
}

function toolUse({ toolUseId: id, name, input }: JsonObject): JsonObject {
  return { type: 'tool_use', id, name, ...(isJsonObject(input) && { input }) }
}

/** Throws UpstreamFailure for answers that the model spoiled. */
function stopReason(reason: unknown): unknown {
  if (reason === 'malformed_model_output' || reason === 'malformed_tool_use')
    throw new UpstreamFailure('server_error', `The model ended its answer with ${reason}.`)
  return reason === 'content_filtered' || reason === 'guardrail_intervened' ? 'refusal' : reason
}

/** As with Anthropic, input tokens exclude those of caches. */
function usageOf({ usage, serviceTier }: JsonObject): JsonObject {
  if (!isJsonObject(usage)) return {}
  const details: unknown[] = Array.isArray(usage.cacheDetails) ? usage.cacheDetails : []
  const written = (ttl: string) =>
    details.reduce<number>((sum, each) => {
      const isCounted = isJsonObject(each) && each.ttl === ttl && typeof each.inputTokens === 'number'
      return isCounted ? sum + (each.inputTokens as number) : sum
    }, 0)
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cache_read_input_tokens: usage.cacheReadInputTokens,
    cache_creation_input_tokens: usage.cacheWriteInputTokens,
    service_tier: isJsonObject(serviceTier) ? serviceTier.type : undefined,
    cache_creation: { ephemeral_5m_input_tokens: written('5m'), ephemeral_1h_input_tokens: written('1h') },
  }
}
