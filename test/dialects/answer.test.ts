import { MessageStream } from '@anthropic-ai/sdk/lib/MessageStream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { AnswerEvent, UsageParts } from '../../src/base/domain/answer-event.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { answerToCompletion } from '../../src/wire/dialects/chat/answer-to-completion.ts'
import { ChunkDecoder, completionToAnswer } from '../../src/wire/dialects/chat/chunk-decoder.ts'
import { ChunkEncoder } from '../../src/wire/dialects/chat/chunk-encoder.ts'
import { ChunkNormaliser } from '../../src/wire/dialects/chat/upstream-chunk.ts'
import { answerToMessage } from '../../src/wire/dialects/messages/answer-to-message.ts'
import { messageToAnswer } from '../../src/wire/dialects/messages/message-to-answer.ts'
import { MessagesDecoder } from '../../src/wire/dialects/messages/messages-decoder.ts'
import { MessagesEncoder } from '../../src/wire/dialects/messages/messages-encoder.ts'
import { messagesUsage } from '../../src/wire/dialects/messages/messages-usage.ts'
import { SseDecoder } from '../../src/wire/dialects/sse/sse-decoder.ts'
import { arbitraryAnswer, joined } from './arbitrary-chat-answer.ts'

const envelope = { id: 'chatcmpl-0198c0de-0000-7000-8000-00000000abcd', created: 1_795_000_000, model: 'demo' }

const usageOf = (events: readonly AnswerEvent[]): UsageParts =>
  events.flatMap(event => (event.kind === 'usage' ? [event.usage] : []))[0]!

function encodeMessages(events: readonly AnswerEvent[]): string {
  const encoder = new MessagesEncoder(envelope, 7, 'shown')
  return encoder.begin() + events.map(event => encoder.event(event)).join('') + encoder.end(usageOf(events))
}

/** Decodes a stream whose bytes arrive cut at `cuts`. */
function decodeMessages(stream: string, cuts: readonly number[]): AnswerEvent[] {
  const sse = new SseDecoder(1_048_576, uncounted)
  const decoder = new MessagesDecoder()
  const bytes = Buffer.from(stream)
  const at = [...new Set(cuts.map(cut => cut % bytes.length)), bytes.length].sort((a, b) => a - b)
  let from = 0
  const events: AnswerEvent[] = []
  for (const to of at) {
    for (const event of sse.push(bytes.subarray(from, to))) events.push(...decoder.push(event))
    from = to
  }
  return [...events, ...decoder.end()]
}

const wholeMessage = (events: readonly AnswerEvent[]): JsonObject =>
  JSON.parse(JSON.stringify({ ...answerToMessage(events, envelope, 'shown'), usage: messagesUsage(usageOf(events)) }))

describe('an answer', () => {
  test('is the same after a stream of messages that is cut anywhere', () => {
    fc.assert(
      fc.property(arbitraryAnswer(false), fc.array(fc.nat(), { maxLength: 12 }), (events, cuts) => {
        expect(joined(decodeMessages(encodeMessages(events), cuts))).toEqual(joined(events))
      }),
    )
  })

  test('is the same after a whole message', () => {
    fc.assert(
      fc.property(arbitraryAnswer(false), events => {
        expect(joined(messageToAnswer(wholeMessage(events)))).toEqual(joined(events))
      }),
    )
  })

  test('is the same for the accumulator of the Anthropic SDK as the whole message', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryAnswer(true), async events => {
        const message = await accumulated(encodeMessages(events))
        const { content, stop_reason, stop_sequence, usage } = wholeMessage(events)
        expect(message).toMatchObject({ id: `msg_${envelope.id.slice(9)}`, stop_reason, stop_sequence })
        expect(message.content).toEqual(content)
        const { cache_creation: _, ...counts } = usage as JsonObject
        expect(message.usage).toMatchObject(counts)
      }),
      { numRuns: 50 },
    )
  })

  test('is the same after chunks of chat', () => {
    fc.assert(
      fc.property(arbitraryAnswer(true), events => {
        const encoder = new ChunkEncoder(envelope)
        const decoder = new ChunkDecoder()
        const decoded = events.flatMap(event => encoder.push(event)).flatMap(part => decoder.push(part))
        expect(joined(decoded)).toEqual(joined(events))
      }),
    )
  })

  test('gives chunks of chat that the normaliser does not change', () => {
    fc.assert(
      fc.property(arbitraryAnswer(true), events => {
        const encoder = new ChunkEncoder(envelope)
        const normaliser = new ChunkNormaliser(envelope, 1, 131_072, false)
        const decoder = new ChunkDecoder()
        const parts = events
          .flatMap(event => encoder.push(event))
          .map(part => (typeof part === 'string' ? { choices: [{ index: 0, delta: { content: part } }] } : part))
        const chunks = [
          ...parts.flatMap(part => normaliser.push({ event: '', data: JSON.stringify(part) })),
          ...normaliser.end(),
        ]
        const decoded = chunks.flatMap(chunk => decoder.push(chunk))
        expect(joined(decoded)).toEqual(joined(withoutExtraEnding(events)))
      }),
    )
  })

  test('is the same after a whole completion', () => {
    fc.assert(
      fc.property(arbitraryAnswer(true), events => {
        const completion = JSON.parse(JSON.stringify(answerToCompletion(events, envelope)))
        expect(joined(completionToAnswer(completion))).toEqual(joined(events))
      }),
    )
  })

  test('is the same after messages, chat and messages', () => {
    fc.assert(
      fc.property(arbitraryAnswer(true), events => {
        const there = new ChunkEncoder(envelope)
        const back = new ChunkDecoder()
        const crossed = events.flatMap(event => there.push(event)).flatMap(part => back.push(part))
        expect(encodeMessages(joined(crossed))).toBe(encodeMessages(joined(events)))
      }),
    )
  })
})

/** The normaliser keeps only OpenAI's finish reasons. */
function withoutExtraEnding(events: readonly AnswerEvent[]): AnswerEvent[] {
  return events.map(event => {
    if (event.kind !== 'finish') return event
    const reason = event.reason === 'context_full' ? 'limit' : event.reason === 'stop_sequence' ? 'end' : event.reason
    return { kind: 'finish', reason }
  })
}

/** Returns the message that the SDK puts together from a stream. */
async function accumulated(stream: string) {
  const lines = stream.split('\n\n').flatMap(event => {
    const line = event.split('\n').find(each => each.startsWith('data: '))
    return line === undefined || line.includes('"type":"ping"') ? [] : [`${line.slice(6)}\n`]
  })
  const body = new ReadableStream({
    start(controller) {
      for (const line of lines) controller.enqueue(new TextEncoder().encode(line))
      controller.close()
    },
  })
  return await MessageStream.fromReadableStream(body).finalMessage()
}
