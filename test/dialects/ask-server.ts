import { type ChatJob, fitOf } from '../../src/base/domain/chat-job.ts'
import type { ChatCompletion } from '../../src/base/domain/completion.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import type { StreamPart } from '../../src/base/domain/handoff.ts'
import type { Offer, ProviderKind } from '../../src/base/domain/offer.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { chatReader } from '../../src/wire/dialects/chat/chat-reader.ts'
import { clientCalls, withClientNames } from '../../src/wire/dialects/fit/client-names.ts'
import { nativeDroppedFields, nativeTask } from '../../src/wire/dialects/native-task.ts'
import { SseDecoder } from '../../src/wire/dialects/sse/sse-decoder.ts'
import type { AnswerReader } from '../../src/wire/dialects/upstream-task.ts'
import { offerAt } from '../dispatch/dispatching.ts'
import { bedrockBody, streamFrames } from '../harness/scripted-bedrock.ts'
import { type VendorAnswer, vendorBody, vendorEvents } from '../harness/scripted-vendors.ts'

export function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}

export function offerFor(dialect: Dialect, kind: ProviderKind = 'cloud', upstreamModel = 'gemini-3-pro'): Offer {
  const offer = offerAt('https://example.com/v1', { name: dialect, upstreamModel, endpoint: { kind } })
  return { ...offer, speaks: [dialect] }
}

/** Returns what a server of a dialect gets, and how its answers are read. */
export function ask(job: ChatJob, offer: Offer) {
  const task = nativeTask(job, offer)
  const body = JSON.parse(task.requestBody(job, offer, job.maxTokens ?? 60)) as JsonObject
  const reader = withClientNames(task.reader?.(job, offer) ?? chatReader, clientCalls(job, fitOf(job, offer)))
  return { body, reader, changed: [...(fitOf(job, offer)?.changed ?? [])], dropped: nativeDroppedFields(job, offer) }
}

export const envelope = { id: 'chatcmpl-12345678', created: 1, model: 'm' }
const bounds = { wholeBytes: 1e6, eventBytes: 1e6, delimiters: 1e5, streamDelimiters: 1e6, otherBytes: 1e6 }
export const expected = { choices: 1, hasStop: false, hidesReasoning: false, maxTokens: 100, bounds }

/** Reads the whole answer of a server. A text is its body as it is. */
export function wholeAnswer(server: Dialect, reader: AnswerReader, answer: VendorAnswer | string): ChatCompletion {
  const body = server === 'converse' ? bedrockBody : (said: VendorAnswer) => vendorBody(server, said)
  return reader.whole(typeof answer === 'string' ? answer : JSON.stringify(body(answer)), envelope, expected)
}

/** Reads the streamed answer of a server. A text is its stream as it is. */
export function streamParts(server: Dialect, reader: AnswerReader, answer: VendorAnswer | string): StreamPart[] {
  const decoder = reader.eventDecoder?.(1e6, uncounted) ?? new SseDecoder(1e6, uncounted)
  const bytes =
    server === 'converse' && typeof answer !== 'string'
      ? Buffer.concat(streamFrames(answer))
      : Buffer.from(typeof answer === 'string' ? answer : vendorEvents(server as 'chat', answer).join(''))
  const stream = reader.stream(envelope, expected)
  const events = [...decoder.push(bytes), ...decoder.end()]
  return [...events.flatMap(event => stream.push(event)), ...stream.end()]
}
