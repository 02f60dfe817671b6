import type { AnswerEvent } from '../../domain/answer-event.ts'
import type { JsonObject } from '../../runtime/json-object.ts'
import { argumentsObject, customInputArguments } from '../tool-arguments.ts'
import { geminiSignature } from './gemini-signature.ts'

/** Turns the events of one answer into parts. A call becomes one part when it is complete. */
export class PartWriter {
  #call: Extract<AnswerEvent, { kind: 'tool_start' }> | null = null
  #arguments = ''
  /** The last part was reasoning that a seal may belong to. */
  #isThinking = false

  /** Returns the parts of one event, often none. */
  push(event: AnswerEvent): JsonObject[] {
    const wasThinking = this.#isThinking
    this.#isThinking = event.kind === 'reasoning'
    switch (event.kind) {
      case 'text':
      case 'refusal':
        return [{ text: event.text }]
      case 'reasoning':
        return [{ text: event.text, thought: true }]
      case 'reasoning_seal':
        return [{ text: '', ...(wasThinking && { thought: true }), thoughtSignature: geminiSignature(event.seal) }]
      case 'tool_start':
        this.#call = event
        this.#arguments = ''
        return []
      case 'tool_arguments':
        this.#arguments += event.text
        return []
      case 'tool_end':
        return this.#endCall()
      default:
        return []
    }
  }

  #endCall(): JsonObject[] {
    if (this.#call === null) return []
    const { id, name, toolKind, seal } = this.#call
    const text = toolKind === 'custom' ? customInputArguments(this.#arguments) : this.#arguments
    const args = argumentsObject(text)
    this.#call = null
    return [{ functionCall: { id, name, args }, ...(seal && { thoughtSignature: geminiSignature(seal) }) }]
  }
}
