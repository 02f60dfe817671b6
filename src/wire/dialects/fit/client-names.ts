import type { ChatJob, FitNotes } from '../../../base/domain/chat-job.ts'
import type { ChunkChoice, ToolCallDelta } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'
import { FittedStream } from './fitted-stream.ts'
import { type PropertyNames, renameArguments } from './property-names.ts'

/** What decides the names and ids of an answer's calls towards the client. */
export interface ClientCalls {
  /** The names of the client's tools, by those that the server got. */
  readonly names: ReadonlyMap<string, string>
  /** The ids of earlier calls in the conversation. */
  readonly earlierIds: ReadonlySet<string>
  /** The client's names of properties by those that the server got, by the client's name of the tool. */
  readonly properties: FitNotes['properties']
}

/**
 * Returns a reader that gives calls the names of the client's tools, and another id where the server repeats one of an
 * earlier turn: some number the calls of each answer from 0, and clients pair results with calls by their ids.
 */
export function withClientNames(reader: AnswerReader, calls: ClientCalls): AnswerReader {
  if (calls.names.size + calls.earlierIds.size + calls.properties.size === 0) return reader
  return {
    ...reader,
    stream: (envelope, expected) =>
      new RenamedStream(reader.stream(envelope, expected), calls, envelope.id.slice(-ID_CHARACTERS)),
    whole: (text, envelope, expected) => {
      const completion = reader.whole(text, envelope, expected)
      for (const { message } of completion.choices) {
        renameCalls(message.tool_calls, calls, envelope.id.slice(-ID_CHARACTERS))
        renameWholeArguments(message.tool_calls, calls.properties)
      }
      return completion
    },
  }
}

/** The length of the end of the answer's id that makes the id of a call unique. */
const ID_CHARACTERS = 8

const noNames: ReadonlyMap<string, string> = new Map()
const noProperties: FitNotes['properties'] = new Map()

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
  return { names: fit?.names ?? noNames, earlierIds, properties: fit?.properties ?? noProperties }
}

class RenamedStream extends FittedStream {
  readonly #calls: ClientCalls
  readonly #idEnd: string
  readonly #held = new HeldArguments()

  constructor(stream: StreamNormaliser, calls: ClientCalls, idEnd: string) {
    super(stream)
    this.#calls = calls
    this.#idEnd = idEnd
  }

  text(event: SseEvent): string | null {
    return this.stream.text(event)
  }

  push(event: SseEvent): StreamPart[] {
    return this.#renamed(this.stream.push(event))
  }

  end(): StreamPart[] {
    return this.#renamed(this.stream.end())
  }

  #renamed(parts: StreamPart[]): StreamPart[] {
    for (const part of parts) {
      if (typeof part === 'string') continue
      for (const choice of part.choices) {
        renameCalls(choice.delta.tool_calls, this.#calls, this.#idEnd)
        if (this.#calls.properties.size > 0) this.#held.rename(choice, this.#calls.properties)
      }
    }
    return parts
  }
}

function renameWholeArguments(calls: unknown, properties: FitNotes['properties']): void {
  if (!Array.isArray(calls) || properties.size === 0) return
  for (const { function: called } of calls) {
    const names = isJsonObject(called) ? properties.get(String(called.name)) : undefined
    if (names !== undefined && typeof called.arguments === 'string') {
      called.arguments = renameArguments(called.arguments, names)
    }
  }
}

/** Holds the arguments of calls back until they are whole, where their properties have other names at the server. */
class HeldArguments {
  readonly #calls = new Map<string, { readonly index: number; readonly names: PropertyNames; text: string }>()

  /** Changes the delta of a choice. The last one has the arguments of all its calls. */
  rename({ index: choice, delta, finish_reason: reason }: ChunkChoice, properties: FitNotes['properties']): void {
    for (const call of delta.tool_calls ?? []) this.#hold(choice, call, properties)
    if (reason === null) return
    const held = [...this.#calls].filter(([key]) => key.startsWith(`${choice}:`))
    if (held.length === 0) return
    const whole = held.map(([key, { index, names, text }]) => {
      this.#calls.delete(key)
      return { index, function: { arguments: renameArguments(text, names) } }
    })
    delta.tool_calls = [...(delta.tool_calls ?? []), ...whole]
  }

  #hold(choice: number, call: ToolCallDelta, properties: FitNotes['properties']): void {
    const key = `${choice}:${call.index}`
    const names = call.function?.name === undefined ? undefined : properties.get(call.function.name)
    if (names !== undefined) this.#calls.set(key, { index: call.index, names, text: '' })
    const held = this.#calls.get(key)
    if (held === undefined || call.function === undefined) return
    held.text += call.function.arguments ?? ''
    call.function.arguments = ''
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
