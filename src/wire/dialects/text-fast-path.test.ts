import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { StreamPart } from '../../base/domain/handoff.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { chatReader } from './chat/chat-reader.ts'
import { upstreamGemini } from './gemini/upstream-gemini.ts'
import { messagesReader } from './messages/messages-normaliser.ts'
import { upstreamResponses } from './responses/upstream-responses.ts'
import { SseDecoder, type SseEvent } from './sse/sse-decoder.ts'
import type { AnswerReader } from './upstream-task.ts'

const envelope = { id: 'chatcmpl-0198c0de-0000-7000-8000-00000000abcd', created: 1_750_000_000, model: 'demo' }
const bounds = { wholeBytes: 1e6, eventBytes: 1e6, delimiters: 1e4, streamDelimiters: 1e6, otherBytes: 1e6 }
const expected = { choices: 1, hasStop: false, maxTokens: 1_000, hidesReasoning: false, bounds }
const job = { source: undefined, forward: { messages: [] } } as unknown as ChatJob
const offer = { endpoint: { endpointId: 'a', apiKey: 'b' } } as unknown as Offer

interface Server {
  readonly reader: AnswerReader
  /** Returns the event for the next text. `at`: how many came before. */
  readonly text: (text: string, at: number) => object
  /** Events that may come between texts. */
  readonly others: readonly object[]
  readonly end: readonly object[]
  readonly isNamed: boolean
}

const chatChunk = (delta: object, more: object = {}) => ({ id: 'a', choices: [{ index: 0, delta, ...more }] })
const responsesText = (text: string, sequence_number: number, output_index = 1, more: object = {}) => ({
  type: 'response.output_text.delta',
  ...{ sequence_number, item_id: 'm', output_index, content_index: 0, delta: text, logprobs: [], ...more },
})
const geminiChunk = (parts: object[], tokens: number, more: object = {}) => ({
  candidates: [{ content: { parts, role: 'model' }, ...more, index: 0 }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: tokens, totalTokenCount: 3 + tokens },
  modelVersion: 'm',
})
const messagesBlock = (index: number, block: object) => ({ type: 'content_block_start', index, content_block: block })
const item = (output_index: number, type: string, name = 'added') => ({
  ...{ type: `response.output_item.${name}`, output_index },
  item: { type, call_id: `c${output_index}`, name: 'f', content: [{ type: 'output_text', text: 'whole' }] },
})

const servers: Readonly<Record<string, Server>> = {
  chat: {
    reader: chatReader,
    text: text => chatChunk({ content: text }),
    others: [
      chatChunk({ reasoning_content: 'hm' }),
      chatChunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }] }),
      chatChunk({ content: 'x' }, { finish_reason: 'stop' }),
      { id: 'b', choices: [{ index: 0, delta: { content: 'y' } }], usage: { prompt_tokens: 1, completion_tokens: 2 } },
    ],
    end: [chatChunk({}, { finish_reason: 'stop' })],
    isNamed: false,
  },
  'chat with padding': {
    reader: chatReader,
    text: (text, at) => ({ ...chatChunk({ content: text }), obfuscation: 'pad'.slice(at % 3) }),
    others: [chatChunk({ content: 'x' }), chatChunk({ content: 'y', obfuscation: 'z' }), { obfuscation: 'z' }],
    end: [chatChunk({}, { finish_reason: 'stop' })],
    isNamed: false,
  },
  messages: {
    reader: messagesReader,
    text: text => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    others: [
      { type: 'ping' },
      messagesBlock(1, { type: 'tool_use', id: 'c', name: 'f', input: {} }),
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{}' } },
      { type: 'content_block_stop', index: 1 },
      { type: 'content_block_delta', index: 2, delta: { type: 'text_delta', text: 'z' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } },
    ],
    end: [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }],
    isNamed: true,
  },
  responses: {
    reader: upstreamResponses.reader!(job, offer),
    text: (text, at) => responsesText(text, at + 1, 1, { obfuscation: 'pad'.slice(at % 3) }),
    others: [
      ...[item(0, 'reasoning'), item(0, 'reasoning', 'done'), item(1, 'message'), item(1, 'message', 'done')],
      ...[item(2, 'function_call'), item(2, 'function_call', 'done'), item(3, 'message')],
      responsesText('other', 5, 3),
      { type: 'response.output_text.delta', delta: 'without an index' },
      { type: 'response.reasoning_text.delta', output_index: 0, delta: 'hm' },
      { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{}' },
    ],
    end: [
      { type: 'response.completed', response: { status: 'completed', usage: { input_tokens: 3, output_tokens: 4 } } },
    ],
    isNamed: true,
  },
  gemini: {
    reader: upstreamGemini.reader!(job, offer),
    text: (text, at) => geminiChunk([{ text }], at),
    others: [
      geminiChunk([{ text: 'a' }, { text: 'b' }], 3),
      geminiChunk([{ text: 'hm', thought: true }], 4),
      geminiChunk([{ functionCall: { name: 'f', args: {} } }], 5),
      geminiChunk([{ text: 'c' }], -1),
      { candidates: [{ content: { parts: [{ text: 'd' }] } }] },
      { usageMetadata: { promptTokenCount: 8 } },
    ],
    end: [geminiChunk([{ text: '' }], 9, { finishReason: 'STOP' })],
    isNamed: false,
  },
}

/** A change of the bytes of one event. `at` and `with` choose the place and the replacement. */
interface Mutation {
  readonly event: number
  readonly at: number
  readonly cut: number
  readonly with: string
}

const words = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: 'grapheme', maxLength: 6 }) },
  fc.constantFrom('"', '\\', '\u0000', '","delta":"', '\ud800', '字'),
)
const mutation: fc.Arbitrary<Mutation> = fc.record({
  event: fc.nat(30),
  at: fc.nat(400),
  cut: fc.nat(3),
  with: fc.oneof(
    fc.constantFrom('', ' ', '0', '-', '1', '"', '\\', '}', '\n', '"text":"x",'),
    fc.string({ maxLength: 3 }),
  ),
})
const story = fc.record({
  steps: fc.array(fc.oneof({ weight: 5, arbitrary: words }, fc.nat(11)), { minLength: 2, maxLength: 24 }),
  mutations: fc.oneof({ weight: 2, arbitrary: fc.constant<Mutation[]>([]) }, fc.array(mutation, { maxLength: 3 })),
  pieces: fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 12 }),
  spaced: fc.boolean(),
})

describe.each(Object.entries(servers))('a stream of %s', (_name, server) => {
  it('gives the same parts and the same usage whether its texts are parsed or not', () => {
    let fastTexts = 0
    const property = fc.property(story, ({ steps, mutations, pieces, spaced }) => {
      const bodies = steps.map((step, at) =>
        typeof step === 'string' ? server.text(step, at) : server.others[step % server.others.length]!,
      )
      const lines = [...bodies, ...server.end].map(body => eventText(body, server.isNamed, spaced))
      for (const each of mutations) {
        const line = lines[each.event % lines.length]!
        const at = each.at % line.length
        lines[each.event % lines.length] = line.slice(0, at) + each.with + line.slice(at + each.cut)
      }
      const events = decoded(Buffer.from(lines.join('')), pieces)
      const fast = read(server.reader, events, true)
      fastTexts += fast.fastTexts
      expect(fast.result).toEqual(read(server.reader, events, false).result)
    })
    fc.assert(property, { numRuns: 3_000 })
    // Most texts have neighbours of the same form, so that the comparison means something.
    expect(fastTexts).toBeGreaterThan(1_000)
  })
})

function eventText(body: object, isNamed: boolean, spaced: boolean): string {
  const data = spaced ? JSON.stringify(body).replaceAll(/(?<=":)|(?<=,)(?=")/g, ' ') : JSON.stringify(body)
  return `${isNamed && 'type' in body ? `event: ${body.type}\n` : ''}data: ${data}\n\n`
}

/** Decodes a stream that arrives in pieces of these lengths, in turns. */
function decoded(bytes: Buffer, pieces: readonly number[]): SseEvent[] {
  const decoder = new SseDecoder(1e6, { take: () => true, give: () => {} } as never)
  const events: SseEvent[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const length = pieces[turn % pieces.length]!
    events.push(...decoder.push(bytes.subarray(at, at + length)))
    at += length
  }
  return [...events, ...decoder.end()]
}

/** Reads a stream as the gateway does, or without the fast path for texts. */
function read(reader: AnswerReader, events: readonly SseEvent[], isFast: boolean) {
  const normaliser = reader.stream(envelope, expected)
  const parts: StreamPart[] = []
  const states: unknown[] = []
  let fastTexts = 0
  let failure: string | null = null
  try {
    for (const event of events) {
      const text = isFast ? normaliser.text(event) : null
      if (text !== null) fastTexts++
      parts.push(...(text === null ? normaliser.push(event) : [text]))
      states.push([normaliser.done, normaliser.complete, normaliser.awaitsUsage])
    }
    parts.push(...normaliser.end())
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error
    failure = `${error.outcome} ${error.message}`
  }
  return { fastTexts, result: { parts: parts.map(plainText), states, failure, usage: normaliser.usage } }
}

/** Chat has a chunk for a text that was parsed. */
function plainText(part: StreamPart): unknown {
  if (typeof part === 'string') return part
  const [choice] = part.choices
  const isText =
    choice !== undefined && JSON.stringify(choice.delta) === JSON.stringify({ content: choice.delta.content })
  return isText && choice.finish_reason === null ? choice.delta.content : part
}
