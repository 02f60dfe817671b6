import type { AnswerSchemas, FitNotes } from '../../../base/domain/chat-job.ts'
import type { ChatCompletion } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'
import type { CustomerCheckTime } from './check-time.ts'
import { FittedStream } from './fitted-stream.ts'
import { violationOf } from './schema-violation.ts'

/**
 * Returns a reader that checks answers against the client's schemas where the server got others, and notes what it
 * finds in `fit`. The answer stays as it is: the vendors' own SDKs move the same keywords into descriptions, and let
 * the client decide what to do with an answer that breaks them.
 *
 * @param time what all checks of one answer may take; what is not done by then counts as unchecked
 * @param noteWork called with the time that they took, ms
 */
export function withSchemaCheck(
  reader: AnswerReader,
  fit: FitNotes,
  schemas: AnswerSchemas,
  time: CustomerCheckTime,
  noteWork: (workMs: number) => void,
): AnswerReader {
  const note = (answers: Iterable<GatheredAnswer>) => {
    const startedMs = performance.now()
    fit.schemaViolation ??= firstViolation(answers, schemas, startedMs + time.leftMs())
    const workMs = performance.now() - startedMs
    time.take(workMs)
    noteWork(workMs)
  }
  return {
    ...reader,
    stream: (envelope, expected) => new CheckedStream(reader.stream(envelope, expected), note),
    whole: (text, envelope, expected) => {
      const completion = reader.whole(text, envelope, expected)
      note(gather(completion))
      return completion
    },
  }
}

/** One deadline for all choices and calls: there may be 16 with 128 each, and the event loop waits for the sum. */
function firstViolation(
  answers: Iterable<GatheredAnswer>,
  { output, tools }: AnswerSchemas,
  deadlineMs: number,
): string | undefined {
  for (const answer of answers) {
    for (const { name, text } of answer.checked(output !== undefined)) {
      const leftMs = deadlineMs - performance.now()
      if (leftMs < CHECK_MS_MIN) return undefined
      const schema = name === null ? output : tools.get(name)
      const violation = schema === undefined ? undefined : violationOf(schema, text, leftMs)
      if (violation !== undefined) return name === null ? violation : `${name} ${violation}`
    }
  }
  return undefined
}

/** The limit of a script counts whole milliseconds. */
const CHECK_MS_MIN = 1

/** The text and the calls of one choice. */
class GatheredAnswer {
  #text = ''
  readonly #calls = new Map<unknown, { name: unknown; args: string }>()
  #finishReason: unknown = null

  add(delta: object, finishReason: unknown): void {
    const { content, tool_calls: calls } = delta as { content?: unknown; tool_calls?: unknown }
    if (typeof content === 'string') this.#text += content
    if (Array.isArray(calls)) for (const [at, call] of calls.entries()) this.#addCall(call, at)
    this.#finishReason = finishReason ?? this.#finishReason
  }

  addText(text: string): void {
    this.#text += text
  }

  #addCall({ index, function: called }: { index?: unknown; function?: unknown }, at: number): void {
    if (!isJsonObject(called)) return
    const call = this.#calls.get(index ?? at) ?? { name: undefined, args: '' }
    call.name ??= called.name
    if (typeof called.arguments === 'string') call.args += called.arguments
    this.#calls.set(index ?? at, call)
  }

  /**
   * What may break a schema: arguments with the name of their tool, or the text. An answer that was cut off or refused
   * cannot satisfy a schema, and says so itself.
   */
  checked(hasOutput: boolean): { readonly name: string | null; readonly text: string }[] {
    if (this.#finishReason !== 'stop' && this.#finishReason !== 'tool_calls') return []
    if (this.#calls.size === 0) return hasOutput ? [{ name: null, text: this.#text }] : []
    return [...this.#calls.values()].flatMap(({ name, args }) => (typeof name === 'string' ? { name, text: args } : []))
  }
}

function gather({ choices }: ChatCompletion): GatheredAnswer[] {
  return choices.map(({ message, finish_reason: reason }) => {
    const answer = new GatheredAnswer()
    answer.add(message, reason)
    return answer
  })
}

class CheckedStream extends FittedStream {
  readonly #note: (answers: Iterable<GatheredAnswer>) => void
  readonly #answers = new Map<number, GatheredAnswer>()

  constructor(stream: StreamNormaliser, note: (answers: Iterable<GatheredAnswer>) => void) {
    super(stream)
    this.#note = note
  }

  text(event: SseEvent): string | null {
    const text = this.stream.text(event)
    if (text !== null) this.#answer(0).addText(text)
    return text
  }

  push(event: SseEvent): StreamPart[] {
    return this.#gathered(this.stream.push(event))
  }

  end(): StreamPart[] {
    const parts = this.#gathered(this.stream.end())
    this.#note(this.#answers.values())
    return parts
  }

  #gathered(parts: StreamPart[]): StreamPart[] {
    for (const part of parts) {
      if (typeof part === 'string') this.#answer(0).addText(part)
      else for (const { index, delta, finish_reason: reason } of part.choices) this.#answer(index).add(delta, reason)
    }
    return parts
  }

  #answer(index: number): GatheredAnswer {
    const answer = this.#answers.get(index) ?? new GatheredAnswer()
    this.#answers.set(index, answer)
    return answer
  }
}
