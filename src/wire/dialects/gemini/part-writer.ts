import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { Seal } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { argumentsObject, customInputArguments } from '../tool-arguments.ts'
import { geminiSignature } from './gemini-signature.ts'

/**
 * How reasoning is written. `verbatim`: as thoughts and signatures, in their order. `shown` and `hidden`: reasoning
 * that Google did not seal is also carried in the signature of the next call, because clients such as Gemini CLI send
 * signatures of calls back but no thoughts. `hidden` leaves the thoughts out.
 */
export type ThoughtDisplay = 'verbatim' | 'shown' | 'hidden'

/** Turns the events of one answer into parts. A call becomes one part when it is complete. */
export class PartWriter {
  readonly #display: ThoughtDisplay
  #call: Extract<AnswerEvent, { kind: 'tool_start' }> | null = null
  #arguments = ''
  /** The last part was reasoning that a seal may belong to. */
  #isThinking = false
  /** Reasoning without a seal so far. */
  #unsealedText = ''
  /** Seals of other vendors than Google, for the next call. */
  #carried: { readonly seal: Seal; readonly text: string }[] = []

  constructor(display: ThoughtDisplay = 'verbatim') {
    this.#display = display
  }

  /** Returns the parts of one event, often none. */
  push(event: AnswerEvent): JsonObject[] {
    const wasThinking = this.#isThinking
    this.#isThinking = event.kind === 'reasoning'
    switch (event.kind) {
      case 'text':
      case 'refusal':
        return [{ text: event.text }]
      case 'reasoning':
        this.#unsealedText += event.text
        return this.#display === 'hidden' ? [] : [{ text: event.text, thought: true }]
      case 'reasoning_seal':
        return this.#seal(event.seal, wasThinking)
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

  #seal(seal: Seal, wasThinking: boolean): JsonObject[] {
    const text = this.#unsealedText
    this.#unsealedText = ''
    if (this.#display !== 'verbatim' && seal.family !== 'google') {
      this.#carried.push({ seal, text })
      if (this.#display === 'hidden' || seal.family === 'text') return []
    }
    const isThought = wasThinking && this.#display !== 'hidden'
    return [{ text: '', ...(isThought && { thought: true }), thoughtSignature: geminiSignature(seal) }]
  }

  #endCall(): JsonObject[] {
    if (this.#call === null) return []
    const { id, name, toolKind, seal } = this.#call
    const text = toolKind === 'custom' ? customInputArguments(this.#arguments) : this.#arguments
    const args = argumentsObject(text)
    this.#call = null
    const signatures = this.#takeCarried()
    if (seal !== undefined) signatures.push(geminiSignature(seal))
    const own = signatures.pop()
    return [
      ...signatures.map(signature => ({ text: '', thoughtSignature: signature })),
      { functionCall: { id, name, args }, ...(own !== undefined && { thoughtSignature: own }) },
    ]
  }

  /** Returns the signatures of the reasoning before a call that Google did not seal. */
  #takeCarried(): string[] {
    const carried = this.#carried
    if (this.#display !== 'verbatim' && this.#unsealedText !== '') {
      carried.push({ seal: { family: 'text', data: '' }, text: this.#unsealedText })
    }
    this.#carried = []
    this.#unsealedText = ''
    return carried.map(({ seal, text }) => geminiSignature(seal, text))
  }
}
