import type { AnswerEvent, AnswerFinish, UsageParts } from '../../../base/domain/answer-event.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import type { EventEncoder } from '../translated-stream.ts'
import { geminiErrorBody } from './gemini-error-body.ts'
import { geminiFinish } from './gemini-finish.ts'
import { geminiUsage } from './gemini-usage.ts'
import { PartWriter, type ThoughtDisplay } from './part-writer.ts'

/** True if `events` are every event of a stream that did not fail: the last one has the usage. */
export function isCompleteGeminiAnswer(events: string): boolean {
  const last = events.lastIndexOf('\ndata: ') + 1
  return events.endsWith('\n\n') && /^data: \{"candidates":\[.*\],"usageMetadata":/.test(events.slice(last))
}

/** Encodes one answer as the server-sent events of `streamGenerateContent`. Each function returns complete events. */
export class GeminiEncoder implements EventEncoder {
  readonly #envelope: Envelope
  readonly #parts: PartWriter
  #finish: AnswerFinish = 'end'
  /** The event of one text around its text, which most events differ in. */
  readonly #textHead: string
  readonly #textTail: string

  constructor(envelope: Envelope, display?: ThoughtDisplay) {
    this.#envelope = envelope
    this.#parts = new PartWriter(display)
    const [head, tail] = this.#chunk({ content: { role: 'model', parts: [{ text: 0 }] } }).split('"text":0')
    this.#textHead = `${head}"text":`
    this.#textTail = tail!
  }

  /** Nothing comes before the first output. */
  begin(): string {
    return ''
  }

  /** Encodes the next text, which most events carry. */
  text(content: string): string {
    return this.#textHead + JSON.stringify(content) + this.#textTail
  }

  /** Encodes one event of the answer; empty until a call is complete. */
  event(event: AnswerEvent): string {
    if (event.kind === 'finish') this.#finish = event.reason
    const parts = this.#parts.push(event)
    return parts.length === 0 ? '' : this.#chunk({ content: { role: 'model', parts } })
  }

  /**
   * Ends a successful answer.
   *
   * @param usage the billed usage
   * @param extraUsage further fields of `usageMetadata`, such as the cost
   */
  end(usage: UsageParts, extraUsage: JsonObject = {}): string {
    // Google's last chunk has an empty text too, and clients read its parts.
    const content = { role: 'model', parts: [{ text: '' }] }
    return this.#chunk(
      { content, finishReason: geminiFinish(this.#finish) },
      { usageMetadata: { ...geminiUsage(usage), ...extraUsage } },
    )
  }

  /** Ends an answer that failed. */
  fail(error: ApiError): string {
    return `data: ${geminiErrorBody(error)}\n\n`
  }

  #chunk(candidate: JsonObject, more: JsonObject = {}): string {
    return `data: ${JSON.stringify(geminiAnswer(this.#envelope, candidate, more))}\n\n`
  }
}

interface WholeAnswerOptions {
  readonly usage?: UsageParts
  readonly extraUsage?: JsonObject
  readonly display?: ThoughtDisplay
}

/**
 * Returns the whole answer of `generateContent`.
 *
 * @param events all events of the answer
 * @param usage the billed usage; default: what the events report
 * @param display how reasoning is written; default: verbatim
 */
export function wholeGeminiAnswer(
  envelope: Envelope,
  events: readonly AnswerEvent[],
  { usage, extraUsage, display }: WholeAnswerOptions = {},
): JsonObject {
  const writer = new PartWriter(display)
  const parts: JsonObject[] = []
  let finish: AnswerFinish = 'end'
  let billed = usage
  for (const event of events) {
    if (event.kind === 'finish') finish = event.reason
    else if (event.kind === 'usage') billed ??= event.usage
    for (const part of writer.push(event)) addPart(parts, part)
  }
  return geminiAnswer(
    envelope,
    { content: { role: 'model', parts }, finishReason: geminiFinish(finish) },
    billed && { usageMetadata: { ...geminiUsage(billed), ...extraUsage } },
  )
}

/** Joins the pieces of one text. */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const last = parts.at(-1)
  const canJoin =
    typeof last?.text === 'string' &&
    last.thoughtSignature === undefined &&
    typeof part.text === 'string' &&
    last.thought === part.thought
  if (canJoin) parts[parts.length - 1] = { ...part, text: `${last.text as string}${part.text as string}` }
  else parts.push(part)
}

function geminiAnswer({ id, created, model }: Envelope, candidate: JsonObject, more: JsonObject = {}): JsonObject {
  return {
    candidates: [{ ...candidate, index: 0 }],
    ...more,
    modelVersion: model,
    createTime: new Date(created * 1000).toISOString(),
    responseId: id,
  }
}
