import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { arbitraryAnswer, joinedEvents } from '../../../../test/dialects/arbitrary-answer.ts'
import { arbitraryConversation } from '../../../../test/dialects/arbitrary-conversation.ts'
import { decodeSse } from '../../../../test/dialects/split-bytes.ts'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { ToolNames } from '../tool-names.ts'
import { parseGeminiRequest } from './gemini-request.ts'
import { GeminiEncoder, isCompleteGeminiAnswer, wholeGeminiAnswer } from './gemini-stream.ts'
import { GeminiDecoder, readGeminiAnswer } from './upstream-answer.ts'
import { geminiRequestBody } from './upstream-request.ts'

const envelope = { id: 'answer-1', created: 1_795_000_000, model: 'demo' }
const noNames = new ToolNames({ tools: [] })

const conversations = arbitraryConversation({
  sealFamily: 'google',
  sealedCalls: true,
  textFirstResults: true,
  customTools: false,
  namespaces: false,
  toolErrors: true,
  lateSystem: false,
  refusals: false,
  imageDetail: false,
  documentNames: false,
  sampling: ['temperature', 'topP', 'topK', 'presencePenalty', 'frequencyPenalty', 'seed', 'stop'],
  efforts: ['minimal', 'low', 'medium', 'high', null],
  isShown: [true, false, null],
  verbosity: false,
  cacheKey: false,
  endUser: false,
  parallelToolCalls: false,
  schemaNames: false,
  strict: [null],
})

const answers = arbitraryAnswer({
  sealFamily: 'google',
  customTools: false,
  namespaces: false,
  refusals: false,
  sealedCalls: true,
  splitArguments: true,
  cacheWrites: false,
  longCacheWrites: false,
})

it('a conversation written as a request reads as the same conversation', () => {
  fc.assert(
    fc.property(conversations, conversation => {
      const body = geminiRequestBody(conversation, conversation.maxOutputTokens)
      const request = parseGeminiRequest(Buffer.from(JSON.stringify(body)), { model: 'demo', stream: false })
      expect(request.conversation()).toEqual(conversation)
    }),
    { numRuns: 300 },
  )
})

it('an answer written as a stream reads as the same answer, split anywhere', () => {
  fc.assert(
    fc.property(answers, fc.array(fc.nat(), { maxLength: 20 }), (events, cuts) => {
      const decoder = new GeminiDecoder(noNames, 'call_')
      const stream = write(events)
      const read = [...decodeSse(stream, cuts).flatMap(event => decoder.push(event)), ...decoder.end()]
      expect(joinedEvents(read)).toEqual(joinedEvents(events))
      expect(isCompleteGeminiAnswer(stream)).toBe(true)
      expect(isCompleteGeminiAnswer(stream.slice(0, stream.lastIndexOf('data: ')))).toBe(false)
    }),
    { numRuns: 300 },
  )
})

it('an answer written whole reads as the same answer', () => {
  fc.assert(
    fc.property(answers, events => {
      const whole = JSON.stringify(wholeGeminiAnswer(envelope, events))
      expect(joinedEvents(readGeminiAnswer(whole, noNames, 'call_'))).toEqual(joinedEvents(events))
    }),
    { numRuns: 300 },
  )
})

describe('the encoder', () => {
  it('ends a failed stream with Google’s error', () => {
    expect(new GeminiEncoder(envelope).fail(new ApiError('rate_limit_exceeded', { message: 'Slow down.' }))).toBe(
      'data: {"error":{"code":429,"message":"Slow down.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"rate_limit_exceeded","domain":"switchyard","metadata":{}}]}}\n\n',
    )
  })

  it('encodes foreign seals so that clients can decode them as base64, and reads them back', () => {
    const seal = { family: 'anthropic', data: 'sig', account: 'a1' } as const
    const answer = wholeGeminiAnswer(envelope, [
      { kind: 'reasoning', text: 'Hm' },
      { kind: 'reasoning_seal', seal },
      { kind: 'text', text: 'Hi' },
    ])
    const [candidate] = answer.candidates as { content: { parts: object[] } }[]
    const { parts } = candidate!.content
    expect(Buffer.from((parts[0] as { thoughtSignature: string }).thoughtSignature, 'base64').toString()).toBe(
      'sy1.anthropic.a1.sig',
    )
    const contents = [
      { role: 'user', parts: [{ text: 'Hello' }] },
      { role: 'model', parts },
    ]
    const body = Buffer.from(JSON.stringify({ contents }))
    expect(parseGeminiRequest(body, { model: 'demo', stream: false }).conversation().turns[1]!.parts).toEqual([
      { kind: 'reasoning', text: 'Hm', seal },
      { kind: 'text', text: 'Hi' },
    ])
  })
})

function write(events: readonly AnswerEvent[]): string {
  const encoder = new GeminiEncoder(envelope)
  let stream = ''
  for (const event of events) {
    if (event.kind === 'text') stream += encoder.text(event.text)
    else if (event.kind === 'usage') stream += encoder.end(event.usage)
    else stream += encoder.event(event)
  }
  return stream
}
