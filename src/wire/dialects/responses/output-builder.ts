import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { ClientToolType, Seal } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { wrapSeal } from '../seal.ts'
import { parseObject } from '../tool-arguments.ts'
import { clientCallItem } from './client-tools.ts'
import { messageParts, movedAnnotation, outputPart, textLength } from './output-part.ts'

/** Writes one event of a stream. */
export type Emit = (type: string, fields: JsonObject) => void

type ItemStatus = 'completed' | 'incomplete'

/**
 * Builds the output items of one response from the events of an answer, and emits the events of a stream on the way.
 * Items follow one another: each is done before the next is added.
 */
export class OutputBuilder {
  /** The items that are done. */
  readonly items: JsonObject[] = []
  readonly #idSuffix: string
  readonly #searchTool: string | null
  /** Null for a whole answer. */
  readonly #emit: Emit | null
  #open: OpenReasoning | OpenMessage | OpenCall | OpenClientCall | null = null
  /** Annotations that came before their text. */
  #early: JsonObject[] = []

  /**
   * @param idSuffix ends the ids of the items; unique per answer
   * @param searchTool the function that is given back as `tool_search_call`
   */
  constructor(idSuffix: string, searchTool: string | null, emit: Emit | null) {
    this.#idSuffix = idSuffix
    this.#searchTool = searchTool
    this.#emit = emit
  }

  /** The message that the last text went into; null if the next text opens another part. */
  get openText(): { readonly id: string; readonly content: readonly JsonObject[] } | null {
    const open = this.#open
    return open?.kind === 'message' && open.part === 'output_text' ? open : null
  }

  /** Takes the next event. `finish` and `usage` are not part of the output. */
  push(event: AnswerEvent): void {
    switch (event.kind) {
      case 'text':
        this.#write('output_text', event.text)
        return
      case 'refusal':
        this.#write('refusal', event.text)
        return
      case 'annotation':
        this.#annotate(event.annotation)
        return
      case 'reasoning':
        this.#writeReasoning(event.text)
        return
      case 'reasoning_seal':
        this.#seal(event.seal)
        return
      case 'tool_start':
        this.#startCall(event)
        return
      case 'tool_arguments':
        this.#writeCall(event.text)
        return
      case 'tool_end':
        if (this.#open?.kind === 'call') this.#endCall(this.#open, 'completed')
        else if (this.#open?.kind === 'client_call') this.#writeClientCall(this.#open, 'completed')
    }
  }

  /** Appends text to the part that is open, for a caller that emits the event itself. */
  appendText(text: string): void {
    ;(this.#open as OpenMessage).text += text
  }

  /** Ends the open item. An item that was cut off is `incomplete`. */
  close(status: ItemStatus = 'completed'): void {
    const open = this.#open
    if (open === null) return
    if (open.kind === 'reasoning') this.#endReasoning(open, null)
    else if (open.kind === 'message') this.#endMessage(open, status)
    else if (open.kind === 'client_call') this.#writeClientCall(open, status)
    else this.#endCall(open, status)
  }

  #write(type: 'output_text' | 'refusal', text: string): void {
    const message = this.#openMessage()
    if (message.part !== type) {
      this.#endPart(message)
      message.part = type
      this.#emit?.('response.content_part.added', { ...this.#at(message.id, message), part: outputPart(type, '', []) })
    }
    message.text += text
    this.#emit?.(`response.${type}.delta`, {
      ...this.#at(message.id, message),
      delta: text,
      ...(type === 'output_text' && { logprobs: [] }),
    })
    if (this.#early.length > 0) for (const each of this.#early.splice(0)) this.#annotate(each)
  }

  /** Adds an annotation to the open text. Those of text that has ended are dropped: the client has it already. */
  #annotate(annotation: JsonObject): void {
    const message = this.#open
    if (message?.kind !== 'message' || message.part !== 'output_text') {
      this.#early.push(annotation)
      return
    }
    message.textBefore ??= textLength(messageParts(this.items)) + textLength(message.content)
    const before = message.textBefore
    if (typeof annotation.start_index === 'number' && annotation.start_index < before) return
    const own = movedAnnotation(annotation, -before)
    const at = { ...this.#at(message.id, message), annotation_index: message.annotations.length }
    this.#emit?.('response.output_text.annotation.added', { ...at, annotation: own })
    message.annotations.push(own)
  }

  #openMessage(): OpenMessage {
    if (this.#open?.kind === 'message') return this.#open
    this.close()
    const message: OpenMessage = {
      kind: 'message',
      id: this.#id('msg'),
      content: [],
      part: null,
      text: '',
      annotations: [],
      textBefore: null,
    }
    this.#add({ id: message.id, type: 'message', status: 'in_progress', role: 'assistant', content: [] })
    this.#open = message
    return message
  }

  #endPart(message: OpenMessage): void {
    const { part: type, text, annotations } = message
    if (type === null) return
    const at = this.#at(message.id, message)
    const whole = outputPart(type, text, annotations)
    this.#emit?.(`response.${type}.done`, type === 'refusal' ? { ...at, refusal: text } : { ...at, text, logprobs: [] })
    this.#emit?.('response.content_part.done', { ...at, part: whole })
    message.content.push(whole)
    message.text = ''
    message.annotations = []
    message.textBefore = null
    message.part = null
  }

  #endMessage(message: OpenMessage, status: ItemStatus): void {
    this.#endPart(message)
    this.#done({ id: message.id, type: 'message', status, role: 'assistant', content: message.content })
  }

  #writeReasoning(text: string): void {
    const reasoning = this.#openReasoning()
    const at = { item_id: reasoning.id, output_index: this.items.length, summary_index: 0 }
    if (reasoning.text === '') {
      this.#emit?.('response.reasoning_summary_part.added', { ...at, part: { type: 'summary_text', text: '' } })
    }
    reasoning.text += text
    this.#emit?.('response.reasoning_summary_text.delta', { ...at, delta: text })
  }

  #openReasoning(): OpenReasoning {
    if (this.#open?.kind === 'reasoning') return this.#open
    this.close()
    const reasoning: OpenReasoning = { kind: 'reasoning', id: this.#id('rs'), text: '' }
    this.#add({ id: reasoning.id, type: 'reasoning', summary: [] })
    this.#open = reasoning
    return reasoning
  }

  #seal(seal: Seal): void {
    this.#endReasoning(this.#openReasoning(), seal)
  }

  #endReasoning({ id, text }: OpenReasoning, seal: Seal | null): void {
    const summary = text === '' ? [] : [{ type: 'summary_text', text }]
    if (text !== '') {
      const at = { item_id: id, output_index: this.items.length, summary_index: 0 }
      this.#emit?.('response.reasoning_summary_text.done', { ...at, text })
      this.#emit?.('response.reasoning_summary_part.done', { ...at, part: summary[0] })
    }
    // Without a seal the client would send the reasoning back as OpenAI's. The text itself is in the summary.
    const sealed = wrapSeal(seal ?? { family: 'text', data: '' }, 'openai')
    this.#done({ id, type: 'reasoning', summary, encrypted_content: sealed })
  }

  #startCall(event: Extract<AnswerEvent, { kind: 'tool_start' }>): void {
    // A seal of the call itself travels in the reasoning item before it.
    if (event.seal !== undefined) this.#seal(event.seal)
    this.close()
    const { id, name, namespace, toolKind, clientTool } = event
    if (clientTool !== undefined) {
      this.#open = { kind: 'client_call', tool: clientTool, callId: id, text: '' }
      return
    }
    const isSearch = name === this.#searchTool && namespace === undefined
    const names = { call_id: id, ...(isSearch ? { execution: 'client' } : { name, ...(namespace && { namespace }) }) }
    const type = isSearch ? 'tool_search_call' : toolKind === 'custom' ? 'custom_tool_call' : 'function_call'
    const item = { id: this.#id(callPrefixes[type]), type, ...names }
    this.#add({ ...item, status: 'in_progress', ...callContent(type, '') })
    this.#open = { kind: 'call', type, item, text: '' }
  }

  #writeCall(text: string): void {
    const call = this.#open
    if (call?.kind === 'client_call') call.text += text
    if (call?.kind !== 'call' || text === '') return
    call.text += text
    if (call.type !== 'tool_search_call')
      this.#emit?.(`${callEvents[call.type]}.delta`, { ...this.#atCall(call), delta: text })
  }

  #endCall(call: OpenCall, status: ItemStatus): void {
    // Clients fail to parse empty arguments.
    if (call.type === 'function_call' && call.text === '' && status === 'completed') this.#writeCall('{}')
    const content = callContent(call.type, call.text)
    if (call.type !== 'tool_search_call') {
      this.#emit?.(`${callEvents[call.type]}.done`, {
        ...this.#atCall(call),
        ...content,
        ...(call.type === 'function_call' && { name: call.item.name }),
      })
    }
    this.#done({ ...call.item, status, ...content })
  }

  /** Writes the whole item at once: it has fields of its own instead of arguments, and clients read them from its start on. */
  #writeClientCall({ tool, callId, text }: OpenClientCall, status: ItemStatus): void {
    const { idPrefix, type, content, started, events } = clientCallItem(tool, text)
    const head = { id: this.#id(idPrefix), type, call_id: callId }
    this.#add({ ...head, status: 'in_progress', ...started })
    const at = { item_id: head.id, output_index: this.items.length }
    for (const [event, fields] of events) this.#emit?.(event, { ...at, ...fields })
    this.#done({ ...head, status, ...content })
  }

  #atCall({ item }: OpenCall): JsonObject {
    return { item_id: item.id, output_index: this.items.length }
  }

  #at(id: string, { content }: OpenMessage): JsonObject {
    return { item_id: id, output_index: this.items.length, content_index: content.length }
  }

  #add(item: JsonObject): void {
    this.#emit?.('response.output_item.added', { output_index: this.items.length, item })
  }

  #done(item: JsonObject): void {
    this.#emit?.('response.output_item.done', { output_index: this.items.length, item })
    this.items.push(item)
    this.#open = null
  }

  #id(prefix: string): string {
    return `${prefix}_${this.#idSuffix}${this.items.length}`
  }
}

// The output item that is written.

interface OpenReasoning {
  readonly kind: 'reasoning'
  readonly id: string
  text: string
}

interface OpenMessage {
  readonly kind: 'message'
  readonly id: string
  readonly content: JsonObject[]
  /** The part that is written, at the index after `content`; null before the first. */
  part: 'output_text' | 'refusal' | null
  text: string
  /** The annotations of this part. */
  annotations: JsonObject[]
  /** The characters of text before this part; null until an annotation needs them. */
  textBefore: number | null
}

interface OpenCall {
  readonly kind: 'call'
  readonly type: OutputCallType
  readonly item: JsonObject & { readonly id: string }
  text: string
}

/** The call of a tool that OpenAI's models know without a definition. */
interface OpenClientCall {
  readonly kind: 'client_call'
  readonly tool: ClientToolType
  readonly callId: string
  text: string
}

type OutputCallType = 'function_call' | 'custom_tool_call' | 'tool_search_call'

/** Starts the ids of calls. */
const callPrefixes: Readonly<Record<OutputCallType, string>> = {
  function_call: 'fc',
  custom_tool_call: 'ctc',
  tool_search_call: 'tsc',
}

/** Starts the names of the events of calls. Searches have none. */
const callEvents = {
  function_call: 'response.function_call_arguments',
  custom_tool_call: 'response.custom_tool_call_input',
} as const

/** Returns the field of a call with what the model wrote. */
function callContent(type: OutputCallType, text: string): JsonObject {
  if (type === 'custom_tool_call') return { input: text }
  return { arguments: type === 'tool_search_call' ? (parseObject(text) ?? {}) : text }
}
