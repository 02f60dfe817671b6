import type { AnswerEvent, UsageParts } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { classifyError } from '../chat/classify-error.ts'
import { TOOL_CALLS_MAX } from '../chat/tool-calls.ts'
import { parseStreamEvent } from '../chat/upstream-chunk.ts'
import { readUpstreamError } from '../chat/upstream-error.ts'
import { HeldBack } from '../held-back.ts'
import type { JsonTally } from '../json/parse-json.ts'
import { PartQueue } from '../part-queue.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { mergeUsage, readMessagesUsage, readStopReason } from './messages-usage.ts'

/** A block that has started and not ended. */
type OpenBlock =
  | { readonly type: 'thinking'; signature: string }
  | { readonly type: 'tool_use'; readonly input: unknown; hasArguments: boolean }

/**
 * Turns the events of one stream of `POST /v1/messages` into the neutral events of an answer. Holds the state of one
 * stream and cannot be reused. Blocks of tools that a server runs are ignored: none is asked for.
 */
export class MessagesDecoder implements JsonTally {
  readonly delimitersMax: number
  delimiters = 0
  readonly #parts = new PartQueue(new HeldBack())
  readonly #blocks = new Map<unknown, OpenBlock>()
  #calls = 0
  readonly #readsCitations: boolean
  #usage: JsonObject = {}
  #stopReason: string | null = null
  #stopSequence: string | undefined
  #done = false

  /**
   * @param delimitersMax the most delimiters in one event
   * @param readsCitations whether blocks of text stay apart, each with its citations
   */
  constructor(delimitersMax = 131_072, readsCitations = false) {
    this.delimitersMax = delimitersMax
    this.#readsCitations = readsCitations
  }

  /** True after `message_stop`: later events are ignored. */
  get done(): boolean {
    return this.#done
  }

  /** True once the stop reason is known: a later failure can only cost the last usage report. */
  get complete(): boolean {
    return this.#done || this.#stopReason !== null
  }

  /** Whether a text would be due at once, because no call is open. */
  get isTextDue(): boolean {
    return this.#parts.isEmpty && !this.complete
  }

  /** The usage that was reported so far; null if there was none. Each report is a sum. */
  get usage(): UsageParts | null {
    return readMessagesUsage(this.#usage)
  }

  /** Returns the events of one event, often none. Throws UpstreamFailure for errors and malformed JSON. */
  push(event: SseEvent): AnswerEvent[] {
    const data = event.data.trimStart()
    if (data === '' || this.#done || event.event === 'ping') return []
    // Some servers that translate from chat end with its marker.
    if (data.startsWith('[DONE]')) return []
    return this.read(parseStreamEvent(event, this), event.event === 'error')
  }

  /** Reads a parsed event. `isError`: its name says that it reports an error. */
  read(body: JsonObject, isError = false): AnswerEvent[] {
    const { index, delta, content_block: block } = body
    if (isError || body.type === 'error' || body.error) {
      throw classifyError(null, readUpstreamError(body, true))
    }
    switch (body.type) {
      case 'message_start':
        if (isJsonObject(body.message)) this.#usage = mergeUsage(this.#usage, promptUsage(body.message.usage))
        return []
      case 'content_block_start':
        return isJsonObject(block) ? this.#startBlock(index, block) : []
      case 'content_block_delta':
        return isJsonObject(delta) ? this.#readDelta(index, delta) : []
      case 'content_block_stop':
        return this.#stopBlock(index)
      case 'message_delta':
        this.#usage = mergeUsage(this.#usage, body.usage)
        return isJsonObject(delta) ? this.#readEnding(delta) : []
      case 'message_stop':
        this.#done = true
        return []
      default:
        return []
    }
  }

  /**
   * Returns the events due at the end of the stream: the parts that were held back, the finish and the usage. Throws
   * UpstreamFailure if the stream broke off.
   */
  end(): AnswerEvent[] {
    if (!this.complete) {
      throw new UpstreamFailure('server_error', 'The upstream closed the stream before its answer was finished.')
    }
    const events = [...this.#blocks.keys()].flatMap(index => this.#stopBlock(index))
    events.push(...this.#parts.flush())
    const reason = readStopReason(this.#stopReason ?? 'end_turn', this.#parts.hasCalls)
    const stopSequence = reason === 'stop_sequence' ? this.#stopSequence : undefined
    events.push({ kind: 'finish', reason, ...(stopSequence !== undefined && { stopSequence }) })
    const { usage } = this
    if (usage !== null) events.push({ kind: 'usage', usage })
    return events
  }

  #startBlock(index: unknown, block: JsonObject): AnswerEvent[] {
    switch (block.type) {
      case 'text':
        return this.#readsCitations ? this.#startCitedText(block) : this.#say('text', block.text)
      case 'thinking':
        this.#blocks.set(index, { type: 'thinking', signature: textOf(block.signature) })
        return this.#say('reasoning', block.thinking)
      case 'redacted_thinking':
        return this.#parts.say({
          kind: 'reasoning_seal',
          seal: { family: 'anthropic', data: textOf(block.data), isRedacted: true },
        })
      case 'tool_use':
        return this.#startCall(index, block)
      default:
        return []
    }
  }

  #startCitedText({ text, citations }: JsonObject): AnswerEvent[] {
    const started = this.#parts.say({ kind: 'text_start' })
    const cited = Array.isArray(citations) ? citations.flatMap(citation => this.#cite(citation)) : []
    return [...started, ...this.#say('text', text), ...cited]
  }

  #cite(citation: unknown): AnswerEvent[] {
    return this.#readsCitations && isJsonObject(citation) ? this.#parts.say({ kind: 'citation', citation }) : []
  }

  #startCall(index: unknown, { id, name, input, toolset_name: toolset }: JsonObject): AnswerEvent[] {
    if (++this.#calls > TOOL_CALLS_MAX) return []
    this.#blocks.set(index, { type: 'tool_use', input, hasArguments: false })
    return this.#parts.startCall(index, {
      kind: 'tool_start',
      id: textOf(id) || `call_${this.#calls}`,
      name: textOf(name),
      toolKind: 'function',
      ...(typeof toolset === 'string' && { toolset }),
    })
  }

  #readDelta(index: unknown, delta: JsonObject): AnswerEvent[] {
    const block = this.#blocks.get(index)
    switch (delta.type) {
      case 'text_delta':
        return this.#say('text', delta.text)
      case 'citations_delta':
        return this.#cite(delta.citation)
      case 'thinking_delta':
        return this.#say('reasoning', delta.thinking)
      case 'signature_delta':
        if (block?.type === 'thinking') block.signature = textOf(delta.signature)
        return []
      case 'input_json_delta': {
        const text = textOf(delta.partial_json)
        if (block?.type !== 'tool_use' || text === '') return []
        block.hasArguments = true
        return this.#parts.addArguments(index, text)
      }
      default:
        return []
    }
  }

  #stopBlock(index: unknown): AnswerEvent[] {
    const block = this.#blocks.get(index)
    if (block === undefined) return []
    this.#blocks.delete(index)
    if (block.type === 'thinking') {
      const { signature: data } = block
      return data === '' ? [] : this.#parts.say({ kind: 'reasoning_seal', seal: { family: 'anthropic', data } })
    }
    // Servers that do not stream arguments put them into the start of the block.
    const whole = block.hasArguments || !isJsonObject(block.input) ? '' : JSON.stringify(block.input)
    const events = whole === '' ? [] : this.#parts.addArguments(index, whole)
    return [...events, ...this.#parts.endCall(index)]
  }

  #readEnding({ stop_reason: reason, stop_sequence: sequence, stop_details: details }: JsonObject): AnswerEvent[] {
    if (typeof reason === 'string') this.#stopReason = reason
    if (typeof sequence === 'string') this.#stopSequence = sequence
    const explanation = isJsonObject(details) && reason === 'refusal' ? textOf(details.explanation) : ''
    return explanation === '' ? [] : this.#parts.say({ kind: 'refusal', text: explanation })
  }

  #say(kind: 'text' | 'reasoning', value: unknown): AnswerEvent[] {
    const text = textOf(value)
    return text === '' ? [] : this.#parts.say({ kind, text })
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/**
 * Returns the first report of a stream without its output: Anthropic writes 1 there, whatever the answer becomes. If
 * the stream reports no more, because the client left or the server omits it, the gateway counts the output.
 */
function promptUsage(usage: unknown): unknown {
  if (!isJsonObject(usage)) return usage
  const { output_tokens: _, output_tokens_details: __, ...prompt } = usage
  return prompt
}
