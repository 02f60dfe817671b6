import type { AnswerEvent, AnswerFinish } from '../../../base/domain/answer-event.ts'
import type { Seal } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { toolsetField } from '../chat/tool-calls.ts'
import { wrapSeal } from '../seal.ts'
import { stopReasonOf } from './messages-usage.ts'

/**
 * What a client sees of reasoning: the text; blocks without text that it sends back with the conversation; or such
 * blocks only where a tool is called, so that the first block of other answers is text.
 */
export type ReasoningDisplay = 'shown' | 'omitted' | 'before_tools'

/** Receives the blocks of a message, strictly one after the other. */
export interface BlockSink {
  start(block: JsonObject): void
  delta(delta: JsonObject): void
  stop(): void
}

/** Ends reasoning that no server sealed: the text is all. */
const textSeal: Seal = { family: 'text', data: '' }

/** Turns the events of an answer into the blocks of a message. Holds the state of one answer. */
export class AnswerBlocks {
  readonly #sink: BlockSink
  readonly #display: ReasoningDisplay
  #open: 'text' | 'thinking' | 'tool_use' | null = null
  /** The text of reasoning that the client does not see; null outside of reasoning. */
  #hiddenText: string | null = null
  /** Reasoning that is shown only if a tool follows. */
  #withheld: { readonly seal: Seal; readonly text: string }[] = []
  #isCustomCall = false
  #hasArguments = false
  #hasCalls = false
  #hasRefusal = false
  #finish: AnswerFinish = 'end'
  #stopSequence: string | null = null

  constructor(sink: BlockSink, display: ReasoningDisplay) {
    this.#sink = sink
    this.#display = display
  }

  /** True while a text block is open, so that more text needs only a delta. */
  get isInText(): boolean {
    return this.#open === 'text'
  }

  /** The `stop_reason` and `stop_sequence` of the message, after `end`. */
  get ending(): { stop_reason: string; stop_sequence: string | null } {
    const isRefusal = this.#hasRefusal && this.#finish === 'end'
    return { stop_reason: stopReasonOf(isRefusal ? 'refused' : this.#finish), stop_sequence: this.#stopSequence }
  }

  /** Adds an event. Usage is not part of the blocks. */
  push(event: AnswerEvent): void {
    switch (event.kind) {
      case 'text':
        this.text(event.text)
        break
      case 'text_start':
        if (this.#open === 'text') this.#close()
        break
      case 'citation':
        this.#cite(event.citation)
        break
      case 'refusal':
        this.#hasRefusal = true
        this.text(event.text)
        break
      case 'reasoning':
        this.#reasoning(event.text)
        break
      case 'reasoning_seal':
        this.#seal(event.seal)
        break
      case 'tool_start':
        this.#startCall(event)
        break
      case 'tool_arguments':
        this.#arguments(event.text)
        break
      case 'tool_end':
        this.#endCall()
        break
      case 'finish':
        this.#finish = event.reason
        this.#stopSequence = event.stopSequence ?? null
        break
      // Anthropic has no place for annotations of others.
      case 'annotation':
      case 'usage':
    }
  }

  /** Adds text. */
  text(text: string): void {
    if (this.#open !== 'text') this.#startBlock('text', { type: 'text', text: '' })
    this.#sink.delta({ type: 'text_delta', text })
  }

  /** Servers may cite before the first text of a block. */
  #cite(citation: JsonObject): void {
    if (this.#open !== 'text') this.#startBlock('text', { type: 'text', text: '' })
    this.#sink.delta({ type: 'citations_delta', citation })
  }

  /** Ends the last block. The seals of some servers come after the call that they belong to. */
  end(): void {
    this.#close()
    if (this.#hasCalls) this.#writeWithheld()
  }

  #reasoning(text: string): void {
    if (this.#display === 'shown') {
      if (this.#open !== 'thinking') this.#startBlock('thinking', emptyThinking())
      this.#sink.delta({ type: 'thinking_delta', thinking: text })
    } else {
      if (this.#hiddenText === null) this.#close()
      this.#hiddenText = (this.#hiddenText ?? '') + text
    }
  }

  /** Ends the reasoning before it. */
  #seal(seal: Seal): void {
    const text = this.#hiddenText ?? ''
    this.#hiddenText = null
    if (this.#display === 'before_tools') {
      this.#close()
      this.#withheld.push({ seal, text })
    } else this.#writeSeal(seal, text)
  }

  /** Writes a seal into the open block of thinking, or into a block without text. */
  #writeSeal(seal: Seal, hiddenText: string): void {
    if (seal.isRedacted) {
      this.#close()
      this.#sink.start({ type: 'redacted_thinking', data: seal.data })
      this.#sink.stop()
      return
    }
    if (this.#open !== 'thinking') this.#startBlock('thinking', emptyThinking())
    this.#open = null
    this.#sink.delta({ type: 'signature_delta', signature: wrapSeal(seal, 'anthropic', hiddenText) })
    this.#sink.stop()
  }

  #writeWithheld(): void {
    for (const { seal, text } of this.#withheld) this.#writeSeal(seal, text)
    this.#withheld = []
  }

  #startCall({ id, name, toolKind, toolset, seal }: Extract<AnswerEvent, { kind: 'tool_start' }>): void {
    this.#close()
    this.#hasCalls = true
    this.#writeWithheld()
    // A call has no place for a seal of its own.
    if (seal !== undefined) this.#writeSeal(seal, '')
    this.#startBlock('tool_use', { type: 'tool_use', id, name, input: {}, ...toolsetField(toolset) })
    this.#isCustomCall = toolKind === 'custom'
    this.#hasArguments = false
    if (this.#isCustomCall) this.#json('{"input":"')
  }

  #arguments(text: string): void {
    this.#json(this.#isCustomCall ? JSON.stringify(text).slice(1, -1) : text)
  }

  #endCall(): void {
    if (this.#open !== 'tool_use') return
    this.#open = null
    if (this.#isCustomCall) this.#json('"}')
    else if (!this.#hasArguments) this.#json('{}')
    this.#sink.stop()
  }

  #json(text: string): void {
    this.#hasArguments = true
    this.#sink.delta({ type: 'input_json_delta', partial_json: text })
  }

  #startBlock(kind: 'text' | 'thinking' | 'tool_use', block: JsonObject): void {
    this.#close()
    this.#open = kind
    this.#sink.start(block)
  }

  #close(): void {
    if (this.#hiddenText !== null) this.#seal(textSeal)
    if (this.#open === 'thinking') this.#writeSeal(textSeal, '')
    else if (this.#open === 'tool_use') this.#endCall()
    else if (this.#open === 'text') {
      this.#open = null
      this.#sink.stop()
    }
  }
}

function emptyThinking(): JsonObject {
  return { type: 'thinking', thinking: '', signature: '' }
}
