import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import {
  type ChatChunk,
  type ChunkChoice,
  type ChunkDelta,
  citedText,
  type Envelope,
  type ToolCallDelta,
} from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { chatAnnotation } from './annotations.ts'
import { callSealField } from './call-seal.ts'
import { usageChunk } from './chat-stream.ts'
import { finishFields } from './finish.ts'
import { reasoningDetail } from './reasoning-details.ts'
import { toolsetField } from './tool-calls.ts'
import { tokenUsage } from './usage.ts'

/**
 * Turns the neutral events of one answer into the chunks that the ChunkNormaliser would give: the role first, tool
 * calls with index and id, one finish_reason, then the usage. Holds the state of one answer.
 */
export class ChunkEncoder {
  readonly #envelope: Envelope
  #hasStarted = false
  #callIndex = -1
  #isCustomCall = false
  /** The text of the reasoning that its seal will end. */
  #reasoning = ''
  #details = 0

  constructor(envelope: Envelope) {
    this.#envelope = envelope
  }

  /** Returns the parts of the stream for an event. Text of the answer stays a string. */
  push(event: AnswerEvent): StreamPart[] {
    const parts = this.#read(event)
    if (this.#hasStarted || parts.length === 0) return parts
    this.#hasStarted = true
    return [this.#chunk({ role: 'assistant', content: '' }), ...parts]
  }

  #read(event: AnswerEvent): StreamPart[] {
    switch (event.kind) {
      case 'text':
        return [event.text]
      case 'text_start':
      case 'citation':
        return [this.#chunk({ [citedText]: [event] })]
      case 'annotation':
        return [this.#chunk({ annotations: [chatAnnotation(event.annotation)] })]
      case 'reasoning':
        this.#reasoning += event.text
        return [this.#chunk({ reasoning_content: event.text })]
      case 'reasoning_seal': {
        const detail = reasoningDetail(this.#reasoning, event.seal, this.#details++, event.id)
        this.#reasoning = ''
        return [this.#chunk({ reasoning_details: [detail] })]
      }
      case 'tool_start':
        return [this.#startCall(event)]
      case 'tool_arguments':
        return [
          this.#call(this.#isCustomCall ? { custom: { input: event.text } } : { function: { arguments: event.text } }),
        ]
      case 'tool_end':
        return []
      case 'refusal':
        return [this.#chunk({ refusal: event.text })]
      case 'finish':
        return [this.#chunk({}, finishFields(event))]
      case 'usage':
        return [usageChunk(this.#envelope, tokenUsage(event.usage))]
    }
  }

  #startCall({ id, name, toolKind, toolset, seal }: Extract<AnswerEvent, { kind: 'tool_start' }>): ChatChunk {
    this.#callIndex += 1
    this.#isCustomCall = toolKind === 'custom'
    const called = this.#isCustomCall ? { custom: { name, input: '' } } : { function: { name, arguments: '' } }
    return this.#call({ id, type: toolKind, ...called, ...toolsetField(toolset), ...callSealField(seal) })
  }

  #call(fields: JsonObject): ChatChunk {
    const call: ToolCallDelta = { index: this.#callIndex, ...fields }
    return this.#chunk({ tool_calls: [call] })
  }

  #chunk(delta: ChunkDelta, ending: Partial<ChunkChoice> = {}): ChatChunk {
    const { id, created, model } = this.#envelope
    const choice: ChunkChoice = { index: 0, delta, finish_reason: null, ...ending }
    return { id, object: 'chat.completion.chunk', created, model, choices: [choice] }
  }
}
