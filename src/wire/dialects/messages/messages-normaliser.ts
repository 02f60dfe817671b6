import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { ContentPattern, type TextPlace } from '../chat/content-pattern.ts'
import { completionOf, DecodedNormaliser } from '../event-normaliser.ts'
import { parseUpstreamObject } from '../json/parse-json.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { ToolNames } from '../tool-names.ts'
import { ClientToolCalls } from '../translated-stream.ts'
import type { AnswerReader } from '../upstream-task.ts'
import { messageToAnswer } from './message-to-answer.ts'
import { MessagesDecoder } from './messages-decoder.ts'

/** Reads the answers of servers that speak messages. */
export const messagesReader: AnswerReader = createMessagesReader(null)

/** The same, for clients of messages that ask for citations. */
export const citedMessagesReader: AnswerReader = createMessagesReader(null, true)

/**
 * @param names those of the tools of the request, if some of them are custom tools; else null
 * @param readsCitations see MessagesDecoder
 */
export function createMessagesReader(names: ToolNames | null, readsCitations = false): AnswerReader {
  return {
    stream: (envelope, { bounds }) =>
      new MessagesNormaliser(
        envelope,
        new MessagesDecoder(bounds.delimiters, readsCitations),
        names && new ClientToolCalls(names),
      ),
    whole: (text, envelope, expected) => {
      const events = messageToAnswer(parseUpstreamObject(text, expected.bounds.delimiters), readsCitations)
      const calls = names && new ClientToolCalls(names)
      return completionOf(calls ? events.flatMap(event => calls.push(event)) : events, envelope, expected)
    },
  }
}

const TEXT_DELTA = 'content_block_delta'

const textPlace: TextPlace = {
  key: '"text":',
  textOf: ({ type, delta }) =>
    type === TEXT_DELTA && isJsonObject(delta) && delta.type === 'text_delta' ? delta.text : null,
}

class MessagesNormaliser extends DecodedNormaliser<MessagesDecoder> {
  readonly #calls: ClientToolCalls | null
  #pattern: ContentPattern | null = null
  /** True until a pattern is learned, and again once an event matches it. */
  #mayLearnPattern = true

  constructor(envelope: Envelope, decoder: MessagesDecoder, calls: ClientToolCalls | null) {
    super(decoder, envelope)
    this.#calls = calls
  }

  text({ event, data }: SseEvent): string | null {
    if (this.#pattern === null || event !== TEXT_DELTA || !this.decoder.isTextDue) return null
    const text = this.#pattern.read(data) || null
    if (text !== null) this.#mayLearnPattern = true
    return text
  }

  protected override encode(events: readonly AnswerEvent[]): StreamPart[] {
    const calls = this.#calls
    return super.encode(calls === null ? events : events.flatMap(event => calls.push(event)))
  }

  /** Each block has another index, and so another pattern. */
  protected learnPattern({ event, data }: SseEvent, text: string): void {
    if (!this.#mayLearnPattern || event !== TEXT_DELTA) return
    this.#pattern = ContentPattern.of(data, text, textPlace)
    this.#mayLearnPattern = false
  }
}
