import Anthropic, { APIError } from '@anthropic-ai/sdk'
import fc from 'fast-check'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import type { AnswerEvent, UsageParts } from '../../src/base/domain/answer-event.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import { answerToCompletion } from '../../src/wire/dialects/chat/answer-to-completion.ts'
import { chatStream } from '../../src/wire/dialects/chat/chat-stream.ts'
import { ChunkEncoder } from '../../src/wire/dialects/chat/chunk-encoder.ts'
import { answerToMessage } from '../../src/wire/dialects/messages/answer-to-message.ts'
import { MessagesEncoder } from '../../src/wire/dialects/messages/messages-encoder.ts'
import { messagesErrorBody, messagesErrorEvent } from '../../src/wire/dialects/messages/messages-error-body.ts'
import { messagesUsage } from '../../src/wire/dialects/messages/messages-usage.ts'
import { arbitraryAnswer } from './arbitrary-chat-answer.ts'

// The SDKs of the vendors read what the encoders write, through a fetch that answers with it.

const envelope = { id: 'chatcmpl-01', created: 1_795_000_000, model: 'demo' }
const cuts = fc.array(fc.nat(), { maxLength: 12 })

const usageOf = (events: readonly AnswerEvent[]): UsageParts =>
  events.flatMap(event => (event.kind === 'usage' ? [event.usage] : []))[0]!

/** Returns a fetch that answers with `text`, whose bytes arrive cut at `at`. */
function answering(text: string, type: string, at: readonly number[] = [], status = 200): typeof fetch {
  const bytes = Buffer.from(text)
  const ends = [...new Set(at.map(each => each % bytes.length)), bytes.length].sort((a, b) => a - b)
  return async () => {
    const body = new ReadableStream({
      start(controller) {
        ends.forEach((end, index) => {
          controller.enqueue(new Uint8Array(bytes.subarray(ends[index - 1] ?? 0, end)))
        })
        controller.close()
      },
    })
    return new Response(body, { status, headers: { 'content-type': type } })
  }
}

const anthropic = (answer: typeof fetch) =>
  new Anthropic({ apiKey: 'k', authToken: null, fetch: answer, maxRetries: 0 })
const openai = (answer: typeof fetch) => new OpenAI({ apiKey: 'k', fetch: answer, maxRetries: 0 })
const prompt = { model: 'demo', messages: [{ role: 'user' as const, content: 'Hi' }] }

function messagesStream(events: readonly AnswerEvent[]): string {
  const encoder = new MessagesEncoder(envelope, 7, 'shown')
  return encoder.begin() + events.map(event => encoder.event(event)).join('') + encoder.end(usageOf(events))
}

function chatEvents(events: readonly AnswerEvent[]): string {
  const chunks = new ChunkEncoder(envelope)
  const encoder = chatStream.encoder(envelope, { includeUsage: false })
  const parts = events.flatMap(event => chunks.push(event))
  return `${parts.map(part => (typeof part === 'string' ? encoder.text(part) : encoder.chunk(part))).join('')}data: [DONE]\n\n`
}

describe('the Anthropic SDK', () => {
  test('reads a stream as the same message as a whole answer', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryAnswer(true), cuts, async (events, at) => {
        const stream = anthropic(answering(messagesStream(events), 'text/event-stream', at))
        const whole = { ...answerToMessage(events, envelope, 'shown'), usage: messagesUsage(usageOf(events)) }
        const json = anthropic(answering(JSON.stringify(whole), 'application/json'))
        const streamed = await stream.messages.stream({ ...prompt, max_tokens: 10 }).finalMessage()
        const created = await json.messages.create({ ...prompt, max_tokens: 10 })
        expect(streamed.content).toEqual(created.content)
        expect(streamed.stop_reason).toBe(created.stop_reason)
        expect(streamed.usage.output_tokens).toBe(created.usage.output_tokens)
        expect(streamed.usage.cache_read_input_tokens).toBe(created.usage.cache_read_input_tokens)
      }),
      { numRuns: 40 },
    )
  })

  test('reads the error of a refused request', async () => {
    const body = messagesErrorBody(new ApiError('insufficient_credits'), 'req_1')
    const client = anthropic(answering(body, 'application/json', [], 402))
    const error = await client.messages.create({ ...prompt, max_tokens: 10 }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ status: 402, type: 'billing_error' })
  })

  test('reads the error of a broken stream', async () => {
    const events = new MessagesEncoder(envelope, 7, 'shown').begin() + messagesErrorEvent(new ApiError('overloaded'))
    const client = anthropic(answering(events, 'text/event-stream'))
    const error = await client.messages
      .stream({ ...prompt, max_tokens: 10 })
      .finalMessage()
      .catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ type: 'overloaded_error' })
  })
})

test('the OpenAI SDK reads a stream as the same message as a whole answer', async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryAnswer(true), cuts, async (events, at) => {
      const stream = openai(answering(chatEvents(events), 'text/event-stream', at))
      const streamed = await stream.chat.completions.stream(prompt).finalChatCompletion()
      const [choice] = answerToCompletion(events, envelope).choices
      const { message, finish_reason } = streamed.choices[0]!
      expect(finish_reason).toBe(choice!.finish_reason)
      expect(message.content ?? '').toBe(choice!.message.content ?? '')
      const calls = (message.tool_calls ?? []).map(({ id, type, ...call }) => {
        const { name, arguments: args } = 'function' in call ? call.function : { name: '', arguments: '' }
        return { id, type, function: { name, arguments: args } }
      })
      expect(calls).toEqual(choice!.message.tool_calls ?? [])
    }),
    { numRuns: 40 },
  )
})
