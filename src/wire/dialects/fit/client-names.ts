import type { ChatChunk } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'

/** Returns a reader that gives calls the names of the client's tools. `names`: these names, by those that the server got. */
export function withClientNames(reader: AnswerReader, names: ReadonlyMap<string, string>): AnswerReader {
  if (names.size === 0) return reader
  return {
    ...reader,
    stream: (envelope, expected) => new RenamedStream(reader.stream(envelope, expected), names),
    whole: (text, envelope, expected) => {
      const completion = reader.whole(text, envelope, expected)
      for (const { message } of completion.choices) renameCalls(message.tool_calls, names)
      return completion
    },
  }
}

class RenamedStream implements StreamNormaliser {
  readonly #stream: StreamNormaliser
  readonly #names: ReadonlyMap<string, string>

  constructor(stream: StreamNormaliser, names: ReadonlyMap<string, string>) {
    this.#stream = stream
    this.#names = names
  }

  get delimiters(): number {
    return this.#stream.delimiters
  }

  get delimitersMax(): number {
    return this.#stream.delimitersMax
  }

  get done(): boolean {
    return this.#stream.done
  }

  get usage(): StreamNormaliser['usage'] {
    return this.#stream.usage
  }

  get complete(): boolean {
    return this.#stream.complete
  }

  get awaitsUsage(): boolean {
    return this.#stream.awaitsUsage
  }

  text(event: SseEvent): string | null {
    return this.#stream.text(event)
  }

  push(event: SseEvent): StreamPart[] {
    return this.#renamed(this.#stream.push(event))
  }

  end(): StreamPart[] {
    return this.#renamed(this.#stream.end())
  }

  #renamed(parts: StreamPart[]): StreamPart[] {
    for (const part of parts) if (typeof part !== 'string') renameChunk(part, this.#names)
    return parts
  }
}

function renameChunk({ choices }: ChatChunk, names: ReadonlyMap<string, string>): void {
  for (const { delta } of choices) renameCalls(delta.tool_calls, names)
}

/** The chunks and completions of readers are new objects, so they are changed in place. */
function renameCalls(calls: unknown, names: ReadonlyMap<string, string>): void {
  if (!Array.isArray(calls)) return
  for (const call of calls) {
    const called: unknown = call.function ?? call.custom
    if (!isJsonObject(called) || typeof called.name !== 'string') continue
    called.name = names.get(called.name) ?? called.name
  }
}
