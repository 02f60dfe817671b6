import fc from 'fast-check'
import { expect, it } from 'vitest'
import { arbitraryAnswer, joinedEvents } from '../../../../test/dialects/arbitrary-answer.ts'
import { arbitraryConversation } from '../../../../test/dialects/arbitrary-conversation.ts'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import type { Conversation, Part } from '../../../base/domain/conversation.ts'
import { parseGeminiRequest } from '../gemini/gemini-request.ts'
import { wholeGeminiAnswer } from '../gemini/gemini-stream.ts'
import { geminiRequestBody } from '../gemini/upstream-request.ts'
import { wholeResponse } from '../responses/response-resource.ts'
import { parseResponsesRequest } from '../responses/responses-request.ts'
import { responsesRequestBody } from '../responses/upstream-request.ts'

const envelope = { id: 'resp_1', created: 1_795_000_000, model: 'demo' }
const { settings } = readResponses({ input: 'Hi' })

const answersOf = (sealFamily: 'google' | 'openai', sealedCalls: boolean) =>
  arbitraryAnswer({
    sealFamily,
    sealedCalls,
    customTools: false,
    namespaces: false,
    refusals: false,
    splitArguments: false,
    cacheWrites: false,
    longCacheWrites: false,
  })

it('a Gemini answer that a Responses client sends back reaches Gemini unchanged', () => {
  fc.assert(
    fc.property(answersOf('google', true), events => {
      const { output } = wholeResponse(envelope, settings, events)
      const input = [{ role: 'user', content: 'Hi' }, ...(output as object[])]
      const back = readGemini(geminiRequestBody(readResponses({ input }).conversation(), null))
      expect(flat(modelParts(back))).toEqual(flat(events))
    }),
    { numRuns: 300 },
  )
})

it('an answer of OpenAI that a Gemini client sends back reaches OpenAI unchanged', () => {
  fc.assert(
    fc.property(answersOf('openai', false), events => {
      const [candidate] = wholeGeminiAnswer(envelope, events).candidates as { content: object }[]
      const { conversation } = parseGeminiRequest(
        json({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }, candidate!.content] }),
        { model: 'demo', stream: false },
      )
      const body = responsesRequestBody(conversation(), { model: 'demo', maxTokens: null, stream: false })
      expect(flat(modelParts(readResponses(body).conversation()))).toEqual(flat(events))
    }),
    { numRuns: 300 },
  )
})

it('a conversation of Codex keeps its texts, calls, results and their order at Gemini', () => {
  const conversations = arbitraryConversation({
    sealFamily: 'google',
    textFirstResults: true,
    customTools: true,
    namespaces: true,
    toolErrors: false,
    lateSystem: false,
    refusals: false,
    imageDetail: true,
    documentNames: true,
    sampling: ['temperature', 'topP'],
    efforts: ['low'],
    isShown: [true],
    verbosity: true,
    cacheKey: true,
    endUser: true,
    parallelToolCalls: true,
    schemaNames: true,
    strict: [true, false],
  })
  fc.assert(
    fc.property(conversations, conversation => {
      const back = readGemini(geminiRequestBody(conversation, null))
      const partsOf = ({ turns }: Conversation) => turns.flatMap(turn => [`${turn.role}:`, ...flat(turn.parts)])
      expect(partsOf(back)).toEqual(partsOf(conversation))
      expect(back.tools).toHaveLength(conversation.tools.length)
    }),
    { numRuns: 300 },
  )
})

function modelParts({ turns }: Conversation): Part[] {
  return turns.flatMap(({ role, parts }) => (role === 'assistant' ? parts : []))
}

/** One line for each thing that is said, with seals before the calls that have them. */
function flat(items: readonly (Part | AnswerEvent)[]): string[] {
  const lines: string[] = []
  for (const item of joinedEvents(items as readonly AnswerEvent[]) as readonly (Part | AnswerEvent)[]) {
    if ('seal' in item && item.kind !== 'reasoning') lines.push(`seal ${item.seal?.data}`)
    switch (item.kind) {
      case 'text':
        lines.push(`text ${item.text}`)
        break
      case 'reasoning':
        if (item.text !== '') lines.push(`thought ${item.text}`)
        if ('seal' in item) lines.push(`seal ${item.seal?.data}`)
        break
      case 'tool_call':
        lines.push(`call ${item.id} ${callText(item)}`)
        break
      case 'tool_start':
        lines.push(`call ${item.id} `)
        break
      case 'tool_arguments':
        lines.push(lines.pop() + item.text)
        break
      case 'tool_result':
        lines.push(`result of ${item.callId} ${JSON.stringify(item.content.map(withoutDetail))}`)
        break
      case 'image':
      case 'document':
        lines.push(JSON.stringify(withoutDetail(item)))
    }
  }
  return lines
}

/** The input of a custom call, which Gemini gets as a function. */
function callText({ arguments: text }: Extract<Part, { kind: 'tool_call' }>): string {
  try {
    const { input, ...others } = JSON.parse(text) as { input?: unknown }
    return typeof input === 'string' && Object.keys(others).length === 0 ? input : text
  } catch {
    return text
  }
}

function withoutDetail(part: Part): object {
  return 'source' in part ? { kind: part.kind, source: part.source } : part
}

function readResponses(body: object) {
  return parseResponsesRequest(json({ model: 'demo', ...body }))
}

function readGemini(body: object): Conversation {
  return parseGeminiRequest(json(body), { model: 'demo', stream: false }).conversation()
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}
