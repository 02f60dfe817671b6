import type { AnswerEvent, UsageParts } from '../../base/domain/answer-event.ts'
import type { ChatChunk, Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { ApiError } from '../../base/domain/errors.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { ChunkDecoder } from './chat/chunk-decoder.ts'
import { usageParts } from './chat/usage.ts'
import type { StreamEncoder } from './client-dialect.ts'
import { customInput } from './tool-arguments.ts'
import type { ToolNames } from './tool-names.ts'

/** Encodes the neutral events of one answer for a client. Every function returns complete events, often none. */
export interface EventEncoder {
  /** Returns the events before the first output. */
  begin(): string
  text(content: string): string
  event(event: AnswerEvent): string
  /** Ends a successful answer. `extraUsage` are further fields of the usage, such as the cost. */
  end(usage: UsageParts, extraUsage: JsonObject): string
  fail(error: ApiError): string
}

/**
 * Encodes the chunks that travel between the stages for a client of another dialect than chat. Text, which most chunks
 * carry, is not translated.
 */
export class TranslatedStream implements StreamEncoder {
  readonly #envelope: Envelope
  readonly #encoder: EventEncoder
  readonly #decoder = new ChunkDecoder()
  readonly #calls: ClientToolCalls
  #hasStarted = false
  /** A text can be written at once unless an earlier call may still be open. */
  #hasCalls = false

  /** @param names the tools of the request */
  constructor(envelope: Envelope, encoder: EventEncoder, names: ToolNames) {
    this.#envelope = envelope
    this.#encoder = encoder
    this.#calls = new ClientToolCalls(names)
  }

  text(content: string): string {
    if (this.#hasStarted && !this.#hasCalls) return this.#encoder.text(content)
    return this.chunk(this.textChunk(content))
  }

  chunk(chunk: ChatChunk): string {
    let events = this.#begin()
    for (const decoded of this.#decoder.push(chunk)) {
      if (decoded.kind === 'tool_start') this.#hasCalls = true
      for (const event of this.#calls.push(decoded)) events += this.#encoder.event(event)
    }
    return events
  }

  textChunk(content: string): ChatChunk {
    const { id, created, model } = this.#envelope
    const choices = [{ index: 0, delta: { content }, finish_reason: null }]
    return { id, object: 'chat.completion.chunk', created, model, choices }
  }

  end(usage: TokenUsage): string {
    return this.#begin() + this.#encoder.end(usageParts(usage), costField(usage))
  }

  fail(error: ApiError): string {
    return this.#begin() + this.#encoder.fail(error)
  }

  #begin(): string {
    if (this.#hasStarted) return ''
    this.#hasStarted = true
    return this.#encoder.begin()
  }
}

/** Returns the cost of a usage, ready to be spread into the usage of another dialect. */
export function costField({ cost_usd: cost }: TokenUsage): JsonObject {
  return cost === undefined ? {} : { cost_usd: cost }
}

/**
 * Gives tool calls back under the names of the client, after a server got flat names, and functions with one text
 * argument for custom tools. The arguments of a custom call are held back until it ends; all other events pass.
 */
export class ClientToolCalls {
  readonly #names: ToolNames
  /** The arguments of the open call of a custom tool; null outside of one. */
  #held: string | null = null

  /** @param names those of the tools of the request */
  constructor(names: ToolNames) {
    this.#names = names
  }

  /** Returns the events for the client. */
  push(event: AnswerEvent): AnswerEvent[] {
    if (event.kind === 'tool_start' && event.toolKind === 'function') {
      const { kind, name, namespace, clientTool } = this.#names.named(event.name)
      if (kind === 'custom') this.#held = ''
      const call = { ...event, name, ...(namespace !== undefined && { namespace }), toolKind: kind }
      return [clientTool === undefined ? call : { ...call, clientTool }]
    }
    if (this.#held === null) return [event]
    if (event.kind === 'tool_arguments') {
      this.#held += event.text
      return []
    }
    if (event.kind !== 'tool_end') return [event]
    const text = customInput(this.#held)
    this.#held = null
    return text === '' ? [event] : [{ kind: 'tool_arguments', text }, event]
  }
}
