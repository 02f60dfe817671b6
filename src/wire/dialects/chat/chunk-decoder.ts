import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { type ChatChunk, type ChatCompletion, citedText } from '../../../base/domain/completion.ts'
import type { ReasoningPart } from '../../../base/domain/conversation.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { PartQueue } from '../part-queue.ts'
import { readAnnotations } from './annotations.ts'
import { readCallSeal } from './call-seal.ts'
import { readFinish } from './finish.ts'
import { readServerDetails } from './reasoning-details.ts'
import { usageParts } from './usage.ts'

/**
 * Turns the normalised chunks of one answer into neutral events. Only the first choice counts: other dialects have one.
 * Log probabilities and audio are dropped. Holds the state of one answer.
 */
export class ChunkDecoder {
  readonly #parts = new PartQueue()
  readonly #startedCalls = new Set<unknown>()
  /** The reasoning since the last seal came as plain text, so the text in its details is a copy. */
  #hasPlainReasoning = false

  /** Returns the events of one part of the stream, often none. */
  push(part: StreamPart): AnswerEvent[] {
    if (typeof part === 'string') return this.#parts.say({ kind: 'text', text: part })
    const events: AnswerEvent[] = []
    for (const choice of part.choices) {
      if (choice.index !== 0) continue
      this.#readDelta(choice.delta, events)
      if (choice.finish_reason === null) continue
      events.push(...this.#parts.flush(), readFinish(choice, this.#parts.hasCalls))
    }
    if (part.usage) events.push({ kind: 'usage', usage: usageParts(part.usage) })
    return events
  }

  #readDelta(delta: ChatChunk['choices'][number]['delta'], events: AnswerEvent[]): void {
    const { reasoning_content, reasoning, reasoning_details: details, content, refusal, tool_calls: calls } = delta
    const sealed = Array.isArray(details) ? readServerDetails(details) : []
    const thought = firstText(reasoning_content, reasoning)
    // OpenRouter sends each text twice, and the details say which seal belongs to it.
    const isCopy = !this.#hasPlainReasoning && sealed.some(({ text }) => text !== '')
    if (thought !== '' && !isCopy) {
      this.#hasPlainReasoning = true
      events.push(...this.#parts.say({ kind: 'reasoning', text: thought }))
    }
    this.#readSealed(sealed, events)
    const cited = delta[citedText]
    if (cited !== undefined) for (const event of cited) events.push(...this.#parts.say(event))
    else if (typeof content === 'string' && content !== '') {
      events.push(...this.#parts.say({ kind: 'text', text: content }))
    }
    // Annotations after a call has started support text that the client has got whole.
    if (delta.annotations !== undefined && this.#parts.isEmpty) {
      for (const annotation of readAnnotations(delta.annotations)) {
        events.push(...this.#parts.say({ kind: 'annotation', annotation }))
      }
    }
    if (typeof refusal === 'string' && refusal !== '') {
      events.push(...this.#parts.say({ kind: 'refusal', text: refusal }))
    }
    for (const [position, call] of (calls ?? []).entries()) this.#readCall(call, call.index ?? position, events)
  }

  #readSealed(sealed: readonly ReasoningPart[], events: AnswerEvent[]): void {
    for (const { text, seal, id } of sealed) {
      if (text !== '' && !this.#hasPlainReasoning) events.push(...this.#parts.say({ kind: 'reasoning', text }))
      if (seal === undefined) continue
      events.push(...this.#parts.say({ kind: 'reasoning_seal', seal, ...(id !== undefined && { id }) }))
      this.#hasPlainReasoning = false
    }
  }

  #readCall(call: JsonObject, index: unknown, events: AnswerEvent[]): void {
    const custom = isJsonObject(call.custom) ? call.custom : null
    const called = custom ?? (isJsonObject(call.function) ? call.function : {})
    if (!this.#startedCalls.has(index)) {
      this.#startedCalls.add(index)
      const seal = readCallSeal(call)
      const toolset = firstText(call.toolset_name)
      events.push(
        ...this.#parts.startCall(index, {
          kind: 'tool_start',
          id: firstText(call.id),
          name: firstText(called.name),
          toolKind: custom === null ? 'function' : 'custom',
          ...(toolset !== '' && { toolset }),
          ...(seal !== undefined && { seal }),
        }),
      )
    }
    const text = firstText(called.arguments, called.input)
    if (text !== '') events.push(...this.#parts.addArguments(index, text))
  }
}

/** Turns a normalised completion into neutral events, the same that a stream gives. */
export function completionToAnswer(completion: ChatCompletion): AnswerEvent[] {
  const decoder = new ChunkDecoder()
  const { choices, usage, ...head } = completion
  const chunkChoices = choices.map(({ message: delta, ...choice }) => ({ ...choice, delta }))
  return decoder.push({ ...head, object: 'chat.completion.chunk', choices: chunkChoices, ...(usage && { usage }) })
}

function firstText(...values: readonly unknown[]): string {
  for (const value of values) if (typeof value === 'string' && value !== '') return value
  return ''
}
