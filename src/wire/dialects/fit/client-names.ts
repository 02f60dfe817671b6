import type { ChatJob, FitNotes } from '../../../base/domain/chat-job.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'

/** What decides the names and ids of an answer's calls towards the client. */
export interface ClientCalls {
  /** The names of the client's tools, by those that the server got. */
  readonly names: ReadonlyMap<string, string>
  /** The ids of earlier calls in the conversation. */
  readonly earlierIds: ReadonlySet<string>
}

/**
 * Returns a reader that gives calls the names of the client's tools, and another id where the server repeats one of an
 * earlier turn: some number the calls of each answer from 0, and clients pair results with calls by their ids.
 */
export function withClientNames(reader: AnswerReader, calls: ClientCalls): AnswerReader {
  if (calls.names.size + calls.earlierIds.size === 0) return reader
  return {
    ...reader,
    stream: (envelope, expected) =>
      new RenamedStream(reader.stream(envelope, expected), calls, envelope.id.slice(-ID_CHARACTERS)),
    whole: (text, envelope, expected) => {
      const completion = reader.whole(text, envelope, expected)
      for (const { message } of completion.choices)
        renameCalls(message.tool_calls, calls, envelope.id.slice(-ID_CHARACTERS))
      return completion
    },
  }
}

/** The length of the end of the answer's id that makes the id of a call unique. */
const ID_CHARACTERS = 8

const noNames: ReadonlyMap<string, string> = new Map()

/** Collects it for one attempt. `fit`: what the server got otherwise than the client sent it. */
export function clientCalls({ forward, source }: ChatJob, fit: FitNotes | undefined): ClientCalls {
  const earlierIds = new Set<string>()
  const note = (id: unknown) => typeof id === 'string' && earlierIds.add(id)
  if (source !== undefined) {
    for (const { parts } of source.conversation().turns)
      for (const part of parts) if (part.kind === 'tool_call') note(part.id)
  } else if (Array.isArray(forward.messages)) {
    for (const { tool_calls: calls } of forward.messages)
      if (Array.isArray(calls)) for (const call of calls) note(call?.id)
  }
  return { names: fit?.names ?? noNames, earlierIds }
}

class RenamedStream implements StreamNormaliser {
  readonly #stream: StreamNormaliser
  readonly #calls: ClientCalls
  readonly #idEnd: string

  constructor(stream: StreamNormaliser, calls: ClientCalls, idEnd: string) {
    this.#stream = stream
    this.#calls = calls
    this.#idEnd = idEnd
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
    for (const part of parts) {
      if (typeof part === 'string') continue
      for (const { delta } of part.choices) renameCalls(delta.tool_calls, this.#calls, this.#idEnd)
    }
    return parts
  }
}

/** The chunks and completions of readers are new objects, so they are changed in place. */
function renameCalls(calls: unknown, { names, earlierIds }: ClientCalls, idEnd: string): void {
  if (!Array.isArray(calls)) return
  for (const call of calls) {
    if (earlierIds.has(call.id)) call.id = `${call.id}_${idEnd}`
    const called: unknown = call.function ?? call.custom
    if (!isJsonObject(called) || typeof called.name !== 'string') continue
    called.name = names.get(called.name) ?? called.name
  }
}
