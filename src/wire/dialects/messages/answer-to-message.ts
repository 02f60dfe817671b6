import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { argumentsObject } from '../tool-arguments.ts'
import { AnswerBlocks, type BlockSink, type ReasoningDisplay } from './answer-blocks.ts'
import { emptyMessage } from './messages-encoder.ts'

/** Returns the whole message for the events of an answer, without its usage. */
export function answerToMessage(
  events: readonly AnswerEvent[],
  envelope: Envelope,
  display: ReasoningDisplay,
): JsonObject {
  const content = new CollectedBlocks()
  const blocks = new AnswerBlocks(content, display)
  for (const event of events) blocks.push(event)
  blocks.end()
  return { ...emptyMessage(envelope), content: content.blocks, ...blocks.ending }
}

class CollectedBlocks implements BlockSink {
  readonly blocks: JsonObject[] = []
  #text = ''

  start(block: JsonObject): void {
    this.blocks.push(block)
    this.#text = ''
  }

  delta({ type, text, thinking, signature, citation, partial_json }: JsonObject): void {
    const block = elementAt(this.blocks, this.blocks.length - 1)
    if (type === 'signature_delta') block.signature = signature
    else if (type === 'citations_delta') block.citations = [...((block.citations as unknown[]) ?? []), citation]
    else this.#text += (text ?? thinking ?? partial_json) as string
  }

  stop(): void {
    const block = elementAt(this.blocks, this.blocks.length - 1)
    if (block.type === 'text') block.text = this.#text
    else if (block.type === 'thinking') block.thinking = this.#text
    else if (block.type === 'tool_use') block.input = argumentsObject(this.#text)
  }
}
