import type { ChatChunk, TokenUsage } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import type { StreamEncoder } from '../client-dialect.ts'

/** Turns server-sent events into the elements of one JSON array, which all encoders of one answer write to. */
export class JsonArray {
  #isOpen = false

  /** Returns the data of complete events as the next elements, with the bracket before the first. */
  elements(events: string): string {
    if (events === '') return ''
    const elements = events
      .split('\n\n')
      .filter(event => event !== '')
      .map(event => event.slice('data: '.length))
    const start = this.#isOpen ? ',\r\n' : '['
    this.#isOpen = true
    return start + elements.join(',\r\n')
  }

  /** Like `elements`, for the last ones. */
  end(events: string): string {
    return `${this.elements(events)}]`
  }
}

/** Encodes a stream as Google does for requests without `alt=sse`: the array has an element for each event. */
export class JsonArrayStream implements StreamEncoder {
  readonly #events: StreamEncoder
  readonly #array: JsonArray

  constructor(events: StreamEncoder, array: JsonArray) {
    this.#events = events
    this.#array = array
  }

  text(content: string): string {
    return this.#array.elements(this.#events.text(content))
  }

  chunk(chunk: ChatChunk): string {
    return this.#array.elements(this.#events.chunk(chunk))
  }

  textChunk(content: string): ChatChunk {
    return this.#events.textChunk(content)
  }

  end(usage: TokenUsage): string {
    return this.#array.end(this.#events.end(usage))
  }

  fail(error: ApiError): string {
    return this.#array.end(this.#events.fail(error))
  }
}

/** True if the text is a whole array with the usage in its last element. */
export function isCompleteJsonArray(text: string): boolean {
  const last = text.slice(text.lastIndexOf('\r\n') + 1)
  return /^[[\n]\{"candidates":\[.*\],"usageMetadata":.*\]$/.test(last)
}
