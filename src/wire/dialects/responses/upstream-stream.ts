import type { AnswerEvent, AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { valueAt } from '../../../base/runtime/collections.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { parseStreamEvent } from '../chat/upstream-chunk.ts'
import type { EventField } from '../event-pattern.ts'
import { HeldBack, joinEvents } from '../held-back.ts'
import type { JsonTally } from '../json/parse-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import { isClientCall } from './client-tools.ts'
import { callStart, callText, messageAnnotations, outputItemEvents, reasoningEnd } from './output-item-events.ts'
import { messageParts, movedAnnotation, textLength } from './output-part.ts'
import { readResponseUsage } from './response-usage.ts'
import { responseFailure, responseFinish } from './upstream-response.ts'

/** Items of one answer. A search for the next item takes time for each. */
const ITEMS_MAX = 1_024

interface OpenItem {
  readonly type: unknown
  /** Events that wait until the items before this one are complete. */
  readonly waiting: AnswerEvent[]
  hasStarted: boolean
  hasContent: boolean
  hasAnnotations: boolean
  /** Arguments arrived before their call: the end of the item has them whole. */
  isReadAtEnd: boolean
  isDone: boolean
  /** The characters of text in the items before this one. */
  readonly textBefore: number
  /** The kind of reasoning that came first: the summary or the full text. The other one repeats it. */
  reasoningType: string | null
}

/**
 * Turns the events of one Responses stream into answer events. Items that a server writes at the same time are given
 * out one after the other. Holds the state of one stream and cannot be reused.
 */
export class ResponsesDecoder implements JsonTally {
  readonly delimitersMax: number
  delimiters = 0
  readonly textFields = textFields
  readonly #items = new Map<number, OpenItem>()
  /** The index of the item that gives out its events. */
  #current = 0
  /** The index of the item to which the last text was added; null if the item was opened again since. */
  #textIndex: number | null = null
  readonly #held = new HeldBack()
  #hasCalls = false
  /** The characters of text in the parts that are complete. */
  #textLength = 0
  #finish: AnswerFinish | null = null
  #usage: UsageParts | null = null

  /** @param delimitersMax the most delimiters in one event */
  constructor(delimitersMax = 131_072) {
    this.delimitersMax = delimitersMax
  }

  /** The last usage report so far; null if there was none. */
  get usage(): UsageParts | null {
    return this.#usage
  }

  /** True after the last event: later ones are ignored. */
  get done(): boolean {
    return this.#finish !== null
  }

  /** See AnswerDecoder. */
  get textTarget(): number | null {
    return this.#textIndex === this.#current && !this.done ? this.#textIndex : null
  }

  /** Returns the answer events of one event, often none. Throws UpstreamFailure for errors and malformed JSON. */
  push(event: SseEvent): AnswerEvent[] {
    if (this.done || event.data === '' || event.data === '[DONE]') return []
    const body = parseStreamEvent(event, this)
    const events: AnswerEvent[] = []
    const { type } = body
    if (type === 'error' || event.event === 'error' || (type === undefined && body.error)) throw responseFailure(body)
    if (type === 'response.output_item.added') this.#addItem(body, events)
    else if (type === 'response.output_item.done') this.#endItem(body, events)
    else if (isEnd(type) && isJsonObject(body.response)) {
      this.#endResponse({ ...body.response, status: type.slice('response.'.length) }, events)
    } else if (typeof body.delta === 'string') this.#addDelta(body, body.delta, events)
    else if (type === 'response.output_text.done') {
      this.#textLength += textLength([{ type: 'output_text', text: body.text }])
    } else if (type === 'response.output_text.annotation.added') this.#annotate(body, events)
    else if (type === 'response.reasoning_summary_part.added') this.#separateSummaries(body, events)
    return events
  }

  /** Returns the last answer events. Throws UpstreamFailure if the stream broke off. */
  end(): AnswerEvent[] {
    if (this.#finish === null) {
      throw new UpstreamFailure('server_error', 'The upstream closed the stream before its answer was finished.')
    }
    const finish: AnswerEvent = { kind: 'finish', reason: this.#finish }
    return this.#usage === null ? [finish] : [finish, { kind: 'usage', usage: this.#usage }]
  }

  #addItem(body: JsonObject, events: AnswerEvent[]): void {
    if (!isJsonObject(body.item)) return
    const index = this.#indexOf(body, this.#items.size)
    const item = this.#open(index, body.item.type)
    if (isCall(item.type)) this.#start(item, index, body.item, events)
  }

  #addDelta(body: JsonObject, delta: string, events: AnswerEvent[]): void {
    const index = this.#indexOf(body)
    const kind = deltaKinds.get(body.type)
    if (kind === undefined || delta === '') return
    const item = this.#items.get(index) ?? this.#open(index, undefined)
    if (kind === 'reasoning') {
      item.reasoningType ??= body.type as string
      if (item.reasoningType !== body.type) return
    } else if (kind === 'tool_arguments') {
      item.isReadAtEnd ||= !item.hasStarted
      if (item.isReadAtEnd) return
    }
    item.hasContent = true
    if (kind === 'text') this.#textIndex = index
    this.#give(item, index, { kind, text: delta }, events)
  }

  #annotate(body: JsonObject, events: AnswerEvent[]): void {
    const index = this.#indexOf(body)
    const item = this.#items.get(index)
    if (item === undefined || !isJsonObject(body.annotation)) return
    item.hasAnnotations = true
    const annotation = movedAnnotation(body.annotation, this.#textLength)
    this.#give(item, index, { kind: 'annotation', annotation }, events)
  }

  #separateSummaries(body: JsonObject, events: AnswerEvent[]): void {
    const index = this.#indexOf(body)
    const item = this.#items.get(index)
    if (item?.hasContent && body.summary_index !== 0)
      this.#give(item, index, { kind: 'reasoning', text: '\n\n' }, events)
  }

  #endItem(body: JsonObject, events: AnswerEvent[]): void {
    const { item: whole } = body
    if (!isJsonObject(whole)) return
    const index = this.#indexOf(body)
    const item = this.#items.get(index) ?? this.#open(index, whole.type)
    if (item.isDone) return
    if (isCall(whole.type)) {
      this.#start(item, index, whole, events)
      const text = callText(whole)
      if (!item.hasContent && text !== '') this.#give(item, index, { kind: 'tool_arguments', text }, events)
      this.#give(item, index, { kind: 'tool_end' }, events)
    } else {
      // Some servers send an item whole, without deltas.
      const rest = item.hasContent ? restOf(whole, item) : outputItemEvents(whole, item.textBefore)
      for (const event of rest) this.#give(item, index, event, events)
      this.#textLength = Math.max(this.#textLength, item.textBefore + textLength(messageParts([whole])))
    }
    item.isDone = true
    this.#advance(events)
  }

  #endResponse(response: JsonObject, events: AnswerEvent[]): void {
    // The report counts even if the answer failed.
    this.#usage = readResponseUsage(response) ?? this.#usage
    if (response.status === 'failed') throw responseFailure(response)
    const output = Array.isArray(response.output) ? response.output : []
    for (let index = 0; index < output.length; index++) {
      if (this.#items.get(index)?.isDone) continue
      this.#endItem({ output_index: index, item: output[index] }, events)
    }
    // An answer that was cut off may have an item without an end.
    for (const [index, item] of [...this.#items].sort(([a], [b]) => a - b)) {
      if (item.isDone) continue
      this.#current = index
      events.push(...item.waiting.splice(0))
      if (isCall(item.type)) events.push({ kind: 'tool_end' })
      item.isDone = true
    }
    this.#finish = responseFinish(response, this.#hasCalls)
  }

  #start(item: OpenItem, index: number, source: JsonObject, events: AnswerEvent[]): void {
    if (item.hasStarted) return
    item.hasStarted = true
    this.#hasCalls = true
    this.#give(item, index, callStart(source), events)
  }

  #open(index: number, type: unknown): OpenItem {
    if (this.#items.size >= ITEMS_MAX) {
      throw new UpstreamFailure('malformed', `The answer has more than ${ITEMS_MAX} items.`)
    }
    const item: OpenItem = {
      type,
      waiting: [],
      hasStarted: false,
      hasContent: false,
      hasAnnotations: false,
      isReadAtEnd: this.#items.get(index)?.isReadAtEnd ?? false,
      isDone: false,
      textBefore: this.#textLength,
      reasoningType: null,
    }
    const current = this.#items.get(this.#current)
    if (current === undefined || current.isDone) this.#current = index
    if (index === this.#textIndex) this.#textIndex = null
    this.#items.set(index, item)
    return item
  }

  #give(item: OpenItem, index: number, event: AnswerEvent, events: AnswerEvent[]): void {
    if (index === this.#current) {
      events.push(event)
      return
    }
    const { waiting } = item
    const last = waiting.at(-1)
    const joined = last === undefined ? null : joinEvents(last, event)
    this.#held.add(event, joined === null)
    if (joined === null) waiting.push(event)
    else waiting[waiting.length - 1] = joined
  }

  /** Goes on to the next item while the current one is done. */
  #advance(events: AnswerEvent[]): void {
    while (this.#items.get(this.#current)?.isDone) {
      const next = nextIndex(this.#items, this.#current)
      if (next === null) return
      this.#current = next
      events.push(...valueAt(this.#items, next).waiting.splice(0))
    }
  }

  /** Returns the index of the event's item. Servers that leave it out write one item after the other. */
  #indexOf({ output_index: index }: JsonObject, usual = this.#current): number {
    return Number.isInteger(index) && (index as number) >= 0 ? (index as number) : usual
  }
}

/** Returns what the deltas of an item did not contain. */
function restOf(whole: JsonObject, { hasAnnotations, textBefore }: OpenItem): AnswerEvent[] {
  return hasAnnotations ? reasoningEnd(whole) : [...reasoningEnd(whole), ...messageAnnotations(whole, textBefore)]
}

function nextIndex(items: ReadonlyMap<number, OpenItem>, after: number): number | null {
  let next: number | null = null
  for (const index of items.keys()) if (index > after && (next === null || index < next)) next = index
  return next
}

const TEXT_DELTA = 'response.output_text.delta'

/** OpenAI pads each delta with random letters, so that its length does not show the length of the text. */
const textFields: readonly EventField[] = [
  { key: '"delta":', kind: 'text', valueIn: ({ type, delta }) => (type === TEXT_DELTA ? delta : undefined) },
  { key: '"sequence_number":', kind: 'count', valueIn: event => event.sequence_number },
  { key: '"obfuscation":', kind: 'padding', valueIn: event => event.obfuscation },
]

/** What the deltas of a stream add to, by their type. */
const deltaKinds: ReadonlyMap<unknown, 'text' | 'refusal' | 'reasoning' | 'tool_arguments'> = new Map([
  [TEXT_DELTA, 'text'],
  ['response.refusal.delta', 'refusal'],
  ['response.reasoning_summary_text.delta', 'reasoning'],
  ['response.reasoning_text.delta', 'reasoning'],
  ['response.function_call_arguments.delta', 'tool_arguments'],
  ['response.custom_tool_call_input.delta', 'tool_arguments'],
] as const)

/** Whether an event of this type has the whole response, and is the last one. */
function isEnd(type: unknown): type is string {
  return type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed'
}

/** Whether an item of this type is a call of a tool. */
function isCall(type: unknown): boolean {
  return type === 'function_call' || type === 'custom_tool_call' || isClientCall({ type })
}
