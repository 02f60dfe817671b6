import fc from 'fast-check'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { arbitraryAnswer, joinedEvents } from '../../../../test/dialects/arbitrary-answer.ts'
import { arbitraryConversation } from '../../../../test/dialects/arbitrary-conversation.ts'
import { decodeSse } from '../../../../test/dialects/split-bytes.ts'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { Part } from '../../../base/domain/conversation.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { Cancelled } from '../../../base/domain/upstream-failure.ts'
import { wholeResponse } from './response-resource.ts'
import { parseResponsesRequest } from './responses-request.ts'
import { isCompleteResponse, ResponsesEncoder } from './responses-stream.ts'
import { responsesRequestBody } from './upstream-request.ts'
import { readResponse } from './upstream-response.ts'
import { ResponsesDecoder } from './upstream-stream.ts'

const envelope = { id: 'resp_0195f3a0-0000-7000-8000-000000000001', created: 1_795_000_000, model: 'demo' }
const COMPLETED_AT = 1_795_000_009
beforeAll(() => void vi.useFakeTimers({ toFake: ['Date'], now: COMPLETED_AT * 1000 }))
afterAll(() => void vi.useRealTimers())
const { settings } = parseResponsesRequest(Buffer.from('{"model":"demo","input":"Hi","temperature":0.5}'))

const conversations = arbitraryConversation({
  sealFamily: 'openai',
  customTools: true,
  namespaces: true,
  toolErrors: false,
  lateSystem: true,
  refusals: true,
  imageDetail: true,
  documentNames: true,
  sampling: ['temperature', 'topP'],
  efforts: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', null],
  isShown: [true, null],
  verbosity: true,
  cacheKey: true,
  endUser: true,
  parallelToolCalls: true,
  schemaNames: true,
  strict: [true, false],
})

const answers = arbitraryAnswer({
  sealFamily: 'openai',
  customTools: true,
  namespaces: true,
  refusals: true,
  sealedCalls: false,
  splitArguments: true,
  cacheWrites: true,
  longCacheWrites: true,
  annotations: true,
})

it('a conversation written as a request reads as the same conversation', () => {
  fc.assert(
    fc.property(conversations, conversation => {
      const { maxOutputTokens } = conversation
      const body = responsesRequestBody(conversation, { model: 'demo', maxTokens: maxOutputTokens, stream: false })
      expect(parseResponsesRequest(Buffer.from(JSON.stringify(body))).conversation()).toEqual(conversation)
    }),
    { numRuns: 300 },
  )
})

it('an answer written as a stream reads as the same answer, split anywhere', () => {
  fc.assert(
    fc.property(answers, fc.array(fc.nat(), { maxLength: 20 }), (events, cuts) => {
      const stream = write(events)
      expect(joinedEvents(read(stream, cuts))).toEqual(joinedEvents(events))
      expect(isCompleteResponse(stream)).toBe(true)
      expect(isCompleteResponse(stream.slice(0, stream.lastIndexOf('event: ')))).toBe(false)
    }),
    { numRuns: 300 },
  )
})

it('an answer written whole reads as the same answer', () => {
  fc.assert(
    fc.property(answers, events => {
      const whole = wholeResponse(envelope, settings, events)
      expect(joinedEvents(readResponse(JSON.stringify(whole)))).toEqual(joinedEvents(events))
    }),
    { numRuns: 300 },
  )
})

it('the items of an answer, sent back as input, are the turn of the model', () => {
  fc.assert(
    fc.property(answers, events => {
      const { output } = wholeResponse(envelope, settings, events)
      const input = [{ role: 'user', content: 'Hi' }, ...(output as object[]), { role: 'user', content: 'And?' }]
      const { turns } = parseResponsesRequest(Buffer.from(JSON.stringify({ model: 'demo', input }))).conversation()
      expect(turns.flatMap(({ role, parts }) => (role === 'assistant' ? parts : []))).toEqual(answerParts(events))
    }),
    { numRuns: 200 },
  )
})

describe('OpenAI’s SDK', () => {
  it('accumulates a stream to the whole response', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async events => {
        const stream = clientOf(write(events)).responses.stream({ model: 'demo', input: 'Hi' })
        const seen: number[] = []
        stream.on('event', event => seen.push(event.sequence_number))
        const final = await stream.finalResponse()
        expect(seen).toEqual(seen.map((_, i) => i))
        expect(withoutParsed(final)).toEqual(wholeResponse(envelope, settings, events))
      }),
      { numRuns: 100 },
    )
  })

  it('sees the same output in the items of the stream as in its last event', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async events => {
        const items: unknown[] = []
        const added: unknown[] = []
        for await (const event of await clientOf(write(events)).responses.create({
          model: 'demo',
          input: 'Hi',
          stream: true,
        })) {
          if (event.type === 'response.output_item.added') added[event.output_index] = event.item.id
          if (event.type === 'response.output_item.done') items[event.output_index] = event.item
          if ('response' in event && event.type !== 'response.created' && event.type !== 'response.in_progress') {
            expect(event.response.output).toEqual(items)
          }
        }
        expect(items.map(item => (item as { id: string }).id)).toEqual(added)
      }),
      { numRuns: 50 },
    )
  })

  it('pays for the output that its last event repeats, and ends when there is no memory left', () => {
    let taken = 0
    const memory = {
      take(bytes: number) {
        if (taken + bytes > 20) return false
        taken += bytes
        return true
      },
      give() {},
    }
    const encoder = new ResponsesEncoder(envelope, settings, memory)
    encoder.begin()
    encoder.event({ kind: 'reasoning', text: 'Hm' })
    encoder.text('Hello')
    expect(taken).toBe(14)
    expect(() => encoder.text(' you')).toThrow(new Cancelled('memory_used_up', true))
    const source = { type: 'url_citation', url: 'https://a.test' }
    expect(() => encoder.event({ kind: 'annotation', annotation: source })).toThrow(Cancelled)
    expect(encoder.fail(new ApiError('overloaded'))).toContain('"text":"Hello"')
  })

  it('reads a failure in mid-stream', async () => {
    const encoder = new ResponsesEncoder(envelope, settings)
    const begun = encoder.begin() + encoder.text('Hel')
    const failed = encoder.fail(new ApiError('all_hosters_failed', { message: 'All servers failed.' }))
    expect(isCompleteResponse(begun + failed)).toBe(false)
    const stream = clientOf(begun + failed).responses.stream({
      model: 'demo',
      input: 'Hi',
    })
    const final = await stream.finalResponse()
    expect(final).toMatchObject({
      status: 'failed',
      error: { code: 'all_hosters_failed', message: 'All servers failed.' },
      output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }],
      usage: null,
    })
  })
})

function write(events: readonly AnswerEvent[]): string {
  const encoder = new ResponsesEncoder(envelope, settings)
  let stream = encoder.begin()
  for (const event of events) {
    if (event.kind === 'text') stream += encoder.text(event.text)
    else if (event.kind === 'usage') stream += encoder.end(event.usage)
    else stream += encoder.event(event)
  }
  return stream
}

function read(stream: string, cuts: readonly number[]): AnswerEvent[] {
  const decoder = new ResponsesDecoder()
  return [...decodeSse(stream, cuts).flatMap(event => decoder.push(event)), ...decoder.end()]
}

function clientOf(stream: string): OpenAI {
  return new OpenAI({
    apiKey: 'key',
    maxRetries: 0,
    fetch: async () => new Response(stream, { headers: { 'content-type': 'text/event-stream' } }),
  })
}

/** Removes what the SDK adds to a response. */
function withoutParsed(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, each) =>
      ['parsed', 'parsed_arguments', 'output_parsed', 'output_text'].includes(key) ? undefined : each,
    ),
  )
}

describe('an answer of another dialect', () => {
  const itemsOf = (events: readonly AnswerEvent[], more = settings) => wholeResponse(envelope, more, events).output
  const start = { kind: 'tool_start', id: 'call_1', name: 'read', toolKind: 'function' } as const

  it('has arguments for a call without any, also in the stream', () => {
    expect(itemsOf([start, { kind: 'tool_end' }])).toMatchObject([{ type: 'function_call', arguments: '{}' }])
    expect(write([start, { kind: 'tool_end' }])).toContain('"delta":"{}"')
  })

  it('carries foreign seals in reasoning items, those of calls before the call', () => {
    const seal = { family: 'google', data: 'c2ln' } as const
    expect(
      itemsOf([
        { kind: 'reasoning', text: 'Hm' },
        { ...start, seal },
        { kind: 'tool_end' },
        { kind: 'text', text: 'Hi' },
      ]),
    ).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Hm' }], encrypted_content: 'sy1.google..c2ln' },
      { type: 'function_call' },
      { type: 'message' },
    ])
  })

  it('marks reasoning without a seal as text', () => {
    expect(
      itemsOf([
        { kind: 'reasoning', text: 'Hm' },
        { kind: 'text', text: 'Hi' },
      ]),
    ).toMatchObject([{ type: 'reasoning', encrypted_content: 'sy1.text..' }, { type: 'message' }])
  })

  it('gives the tool search back as its own item', () => {
    const search = { ...start, name: 'tool_search' }
    const events: AnswerEvent[] = [search, { kind: 'tool_arguments', text: '{"query":"a"}' }, { kind: 'tool_end' }]
    const item = { type: 'tool_search_call', call_id: 'call_1', execution: 'client', arguments: { query: 'a' } }
    expect(itemsOf(events, { ...settings, searchTool: 'tool_search' })).toMatchObject([item])
    expect(itemsOf(events)).toMatchObject([{ type: 'function_call' }])
  })

  it('is billed as the gateway says', () => {
    const usage = {
      freshTokens: 1,
      cacheReadTokens: 2,
      cacheWriteTokens: 3,
      cacheWriteLongTokens: 4,
      outputTokens: 5,
      reasoningTokens: null,
    }
    const options = { usage, extraUsage: { cost_usd: 0.5 } }
    expect(wholeResponse(envelope, settings, [], options).usage).toEqual({
      input_tokens: 10,
      input_tokens_details: {
        cached_tokens: 2,
        cache_write_tokens: 7,
        cache_write_tokens_details: { ttl_30m_tokens: 3, ttl_12h_tokens: 4 },
      },
      output_tokens: 5,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 15,
      cost_usd: 0.5,
    })
  })
})

/** Returns the parts that an answer adds to a conversation. */
function answerParts(events: readonly AnswerEvent[]): Part[] {
  const parts: Part[] = []
  let thought = ''
  for (const event of joinedEvents(events)) {
    const last = parts.at(-1)
    if (event.kind === 'text' || event.kind === 'refusal') parts.push({ kind: event.kind, text: event.text })
    else if (event.kind === 'reasoning') thought = event.text
    else if (event.kind === 'reasoning_seal') {
      parts.push({ kind: 'reasoning', text: thought, seal: event.seal })
      thought = ''
    } else if (event.kind === 'tool_start') {
      const { id, name, namespace, toolKind } = event
      parts.push({ kind: 'tool_call', id, name, ...(namespace && { namespace }), toolKind, arguments: '' })
    } else if (event.kind === 'tool_arguments' && last?.kind === 'tool_call') {
      parts[parts.length - 1] = { ...last, arguments: last.arguments + event.text }
    }
  }
  return parts
}
