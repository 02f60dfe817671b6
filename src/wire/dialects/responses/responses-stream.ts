import type { AnswerEvent, AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import { Cancelled } from '../../../base/domain/upstream-failure.ts'
import { type ByteAccount, uncounted } from '../../../base/runtime/counted-memory.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import type { EventEncoder } from '../translated-stream.ts'
import { OutputBuilder } from './output-builder.ts'
import { endingOf, itemIdSuffix, type ResponseState, responseResource } from './response-resource.ts'
import type { ResponseSettings } from './response-settings.ts'
import { responseUsage } from './response-usage.ts'

const COMPLETED = 'event: response.completed\n'
const INCOMPLETE = 'event: response.incomplete\n'

/** True if `events` are every event of a stream that did not fail. */
export function isCompleteResponse(events: string): boolean {
  // JSON escapes line breaks, so that no text can look like the start of an event.
  const last = events.lastIndexOf('\nevent: ') + 1
  return events.endsWith('\n\n') && (events.startsWith(COMPLETED, last) || events.startsWith(INCOMPLETE, last))
}

/**
 * Encodes one answer as the server-sent events of a response. Each function returns complete events, ready to be sent.
 * Call `begin` first, then `end` or `fail` once. `text` and `event` throw Cancelled `memory_used_up`.
 */
export class ResponsesEncoder implements EventEncoder {
  readonly #envelope: Envelope
  readonly #settings: ResponseSettings
  readonly #output: OutputBuilder
  readonly #memory: ByteAccount
  #sequence = 0
  /** Events that are written but not returned yet. */
  #written = ''
  #finish: AnswerFinish = 'end'
  /** The event of one text around its sequence number and its text. Most events differ only in these. */
  #textPattern: { readonly id: string; readonly head: string; readonly middle: string; readonly tail: string } | null =
    null

  /** @param memory pays for the output, which the last event repeats */
  constructor(envelope: Envelope, settings: ResponseSettings, memory: ByteAccount = uncounted) {
    this.#memory = memory
    this.#envelope = envelope
    this.#settings = settings
    this.#output = new OutputBuilder(itemIdSuffix(envelope), settings.searchTool, (type, fields) => {
      this.#write(type, fields)
    })
  }

  /** Returns the events before the first output. */
  begin(): string {
    // Agents send 40 kB of instructions and tools, which the response repeats: they are encoded once for both events.
    const response = JSON.stringify(
      responseResource(this.#envelope, this.#settings, { status: 'in_progress', output: [] }),
    )
    return ['response.created', 'response.in_progress']
      .map(
        type =>
          `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},"response":${response}}\n\n`,
      )
      .join('')
  }

  /** Encodes the next text, which most events carry. */
  text(content: string): string {
    const open = this.#output.openText
    if (open === null) return this.event({ kind: 'text', text: content })
    this.#keep(content)
    this.#output.appendText(content)
    const pattern = this.#textPattern?.id === open.id ? this.#textPattern : this.#learnPattern(open)
    return pattern.head + this.#sequence++ + pattern.middle + JSON.stringify(content) + pattern.tail
  }

  /** Encodes one event of the answer; `finish` and `usage` only at the end. */
  event(event: AnswerEvent): string {
    if (event.kind === 'finish') this.#finish = event.reason
    else {
      // A refusal opens another part of the same message.
      if (event.kind !== 'text') this.#textPattern = null
      if ('text' in event) this.#keep(event.text)
      else if (event.kind === 'annotation') this.#keep(JSON.stringify(event.annotation))
      this.#output.push(event)
    }
    return this.#take()
  }

  /**
   * Ends a successful answer.
   *
   * @param usage the billed usage
   * @param extraUsage further fields of `usage`, such as the cost
   */
  end(usage: UsageParts, extraUsage: JsonObject = {}): string {
    const ending = endingOf(this.#finish)
    this.#output.close(ending.status === 'incomplete' ? 'incomplete' : 'completed')
    this.#end({ ...ending, usage: { ...responseUsage(usage), ...extraUsage }, output: this.#output.items })
    return this.#take()
  }

  /** Ends an answer that failed. Codex ignores a bare `error` event and takes it for a broken connection. */
  fail({ code, message }: ApiError): string {
    this.#output.close('incomplete')
    this.#end({ status: 'failed', error: { code, message }, output: this.#output.items })
    return this.#take()
  }

  /** A string has up to two bytes per character. */
  #keep(text: string): void {
    if (!this.#memory.take(text.length * 2)) throw new Cancelled('memory_used_up', true)
  }

  #end(state: ResponseState): void {
    this.#write(`response.${state.status}`, { response: responseResource(this.#envelope, this.#settings, state) })
  }

  #learnPattern({ id, content }: { readonly id: string; readonly content: readonly JsonObject[] }) {
    const type = 'response.output_text.delta'
    const at = { item_id: id, output_index: this.#output.items.length, content_index: content.length }
    const [middle, tail] = JSON.stringify({ ...at, delta: 0, logprobs: [] }).split('"delta":0')
    this.#textPattern = {
      id,
      head: `event: ${type}\ndata: {"type":"${type}","sequence_number":`,
      middle: `,${middle!.slice(1)}"delta":`,
      tail: `${tail}\n\n`,
    }
    return this.#textPattern
  }

  #write(type: string, fields: JsonObject): void {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields })
    this.#written += `event: ${type}\ndata: ${data}\n\n`
  }

  #take(): string {
    const written = this.#written
    this.#written = ''
    return written
  }
}
