import { FunctionCallingConfigMode, GoogleGenAI, ThinkingLevel, Type } from '@google/genai'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { arbitraryAnswer } from '../../../../test/dialects/arbitrary-answer.ts'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { geminiPath } from './gemini-path.ts'
import { parseGeminiRequest } from './gemini-request.ts'
import { GeminiEncoder, wholeGeminiAnswer } from './gemini-stream.ts'
import { geminiRequestBody } from './upstream-request.ts'

const envelope = { id: 'answer-1', created: 1_795_000_000, model: 'demo' }
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

/** Every kind of part and setting that Google's SDK and the neutral conversation share. */
const request = {
  model: 'demo',
  contents: [
    {
      role: 'user',
      parts: [{ text: 'What is this?' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' } }],
    },
    {
      role: 'model',
      parts: [
        { text: 'I should look.', thought: true, thoughtSignature: 'c2lnMQ==' },
        { text: 'One moment.' },
        { functionCall: { id: 'call_0', name: 'look', args: { at: 'a' } }, thoughtSignature: 'c2lnMg==' },
      ],
    },
    {
      role: 'user',
      parts: [{ functionResponse: { id: 'call_0', name: 'look', response: { output: 'a cat' } } }],
    },
  ],
  config: {
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    maxOutputTokens: 100,
    temperature: 0.5,
    topP: 0.25,
    topK: 8,
    seed: 7,
    stopSequences: ['END'],
    responseMimeType: 'application/json',
    responseJsonSchema: { type: 'object' },
    thinkingConfig: { thinkingLevel: ThinkingLevel.LOW, includeThoughts: true },
    tools: [
      {
        functionDeclarations: [
          { name: 'look', description: 'Looks', parametersJsonSchema: { type: 'object', properties: {} } },
        ],
      },
    ],
    toolConfig: {
      functionCallingConfig: { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ['look'] },
    },
  },
}

describe('a request of Google’s SDK', () => {
  it('becomes a conversation, which is written as the SDK writes it', async () => {
    const sent = await sentBy(client => client.models.generateContent(request))
    const { conversation, facts } = parseGeminiRequest(Buffer.from(sent.body), { model: 'demo', stream: false })
    expect(conversation()).toMatchObject({
      system: [{ text: 'Be brief.' }],
      turns: [
        { role: 'user', parts: [{ kind: 'text' }, { kind: 'image', source: { mediaType: 'image/png' } }] },
        {
          role: 'assistant',
          parts: [
            { kind: 'reasoning', text: 'I should look.', seal: { family: 'google', data: 'c2lnMQ==' } },
            { kind: 'text', text: 'One moment.' },
            { kind: 'tool_call', id: 'call_0', name: 'look', arguments: '{"at":"a"}', seal: { data: 'c2lnMg==' } },
          ],
        },
        { role: 'user', parts: [{ kind: 'tool_result', callId: 'call_0', content: [{ text: 'a cat' }] }] },
      ],
      toolChoice: { kind: 'only', name: 'look' },
      reasoning: { effort: 'low', isShown: true },
      sampling: { stop: ['END'], topK: 8, seed: 7 },
    })
    expect(facts).toMatchObject({ maxTokens: 100, hasStop: true, droppedFields: [] })
    expect(geminiRequestBody(conversation(), 100)).toEqual(JSON.parse(sent.body))
  })

  it('has the path of an upstream request', async () => {
    const whole = await sentBy(client => client.models.generateContent(request))
    expect(whole.url).toBe(`https://gateway.example/v1${geminiPath({ upstreamModel: 'demo', endpoint: {} }, false)}`)
    const streamed = await sentBy(client => client.models.generateContentStream(request))
    expect(streamed.url).toBe(`https://gateway.example/v1${geminiPath({ upstreamModel: 'demo', endpoint: {} }, true)}`)
  })

  it('may describe functions in Google’s own schemas and leave ids out', async () => {
    const parameters = {
      type: Type.OBJECT,
      properties: {
        city: { type: Type.STRING, nullable: true },
        days: { type: Type.ARRAY, items: { type: Type.INTEGER } },
      },
    }
    const sent = await sentBy(client =>
      client.models.generateContent({
        model: 'demo',
        contents: [
          { role: 'user', parts: [{ text: 'Weather?' }] },
          { role: 'model', parts: [1, 2].map(n => ({ functionCall: { name: 'weather', args: { n } } })) },
          { role: 'user', parts: [1, 2].map(n => ({ functionResponse: { name: 'weather', response: { rain: n } } })) },
        ],
        config: { tools: [{ functionDeclarations: [{ name: 'weather', parameters }] }, { googleSearch: {} }] },
      }),
    )
    const { conversation, facts } = parseGeminiRequest(Buffer.from(sent.body), { model: 'demo', stream: true })
    expect(conversation().tools[0]!.parameters).toEqual({
      type: 'object',
      properties: { city: { type: ['string', 'null'] }, days: { type: 'array', items: { type: 'integer' } } },
    })
    const [, calls, results] = conversation().turns
    expect(calls!.parts).toMatchObject([{ id: 'call_0' }, { id: 'call_1' }])
    expect(results!.parts).toMatchObject([
      { callId: 'call_0', content: [{ text: '{"rain":1}' }] },
      { callId: 'call_1', content: [{ text: '{"rain":2}' }] },
    ])
    expect(facts.droppedFields).toEqual(['tools.googleSearch'])
  })
})

describe('Google’s SDK reads', () => {
  it('streams', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async events => {
        const seen: Seen = { text: '', thoughts: '', calls: [] }
        const stream = await clientOf(() => sse(write(events))).models.generateContentStream(request)
        for await (const chunk of stream) see(seen, chunk)
        expect(seen).toEqual(expected(events))
      }),
      { numRuns: 100 },
    )
  })

  it('whole answers', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async events => {
        const seen: Seen = { text: '', thoughts: '', calls: [] }
        see(
          seen,
          await clientOf(() => Response.json(wholeGeminiAnswer(envelope, events))).models.generateContent(request),
        )
        expect(seen).toEqual(expected(events))
      }),
      { numRuns: 100 },
    )
  })

  it('the end of a stream that failed', async () => {
    const encoder = new GeminiEncoder(envelope)
    const failed = encoder.text('Hel') + encoder.fail(new ApiError('server_shutdown'))
    const stream = await clientOf(() => sse(failed)).models.generateContentStream(request)
    await expect(
      (async () => {
        for await (const _ of stream);
      })(),
    ).rejects.toThrow('shutting down')
  })
})

interface Seen {
  text: string
  thoughts: string
  calls: unknown[]
  finish?: string | undefined
  input?: number | undefined
  output?: number
}

type Chunk = Awaited<ReturnType<GoogleGenAI['models']['generateContent']>>

function see(seen: Seen, chunk: Chunk): void {
  for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
    if (part.thought) seen.thoughts += part.text
    else seen.text += part.text ?? ''
  }
  for (const { id, name, args } of chunk.functionCalls ?? []) seen.calls.push({ id, name, args })
  const { usageMetadata: usage } = chunk
  if (!usage) return
  seen.finish = chunk.candidates?.[0]?.finishReason
  seen.input = usage.promptTokenCount
  seen.output = (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0)
}

function expected(events: readonly AnswerEvent[]): Seen {
  const seen: Seen = { text: '', thoughts: '', calls: [] }
  let call = { id: '', name: '', text: '' }
  for (const event of events) {
    if (event.kind === 'text') seen.text += event.text
    else if (event.kind === 'reasoning') seen.thoughts += event.text
    else if (event.kind === 'tool_start') call = { id: event.id, name: event.name, text: '' }
    else if (event.kind === 'tool_arguments') call.text += event.text
    else if (event.kind === 'tool_end') seen.calls.push({ id: call.id, name: call.name, args: JSON.parse(call.text) })
    else if (event.kind === 'finish') {
      seen.finish = event.reason === 'limit' ? 'MAX_TOKENS' : event.reason === 'refused' ? 'SAFETY' : 'STOP'
    } else if (event.kind === 'usage') {
      seen.input = event.usage.freshTokens + event.usage.cacheReadTokens
      seen.output = event.usage.outputTokens
    }
  }
  return seen
}

function write(events: readonly AnswerEvent[]): string {
  const encoder = new GeminiEncoder(envelope)
  return events
    .map(event => {
      if (event.kind === 'text') return encoder.text(event.text)
      return event.kind === 'usage' ? encoder.end(event.usage) : encoder.event(event)
    })
    .join('')
}

function sse(text: string): Response {
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
}

async function sentBy(call: (client: GoogleGenAI) => Promise<unknown>): Promise<{ url: string; body: string }> {
  let sent = { url: '', body: '' }
  const client = clientOf((url, body) => {
    sent = { url, body }
    return Response.json(wholeGeminiAnswer(envelope, [{ kind: 'text', text: 'Hi' }]))
  })
  await call(client)
  return sent
}

function clientOf(answer: (url: string, body: string) => Response): GoogleGenAI {
  return new GoogleGenAI({
    apiKey: 'key',
    httpOptions: {
      baseUrl: 'https://gateway.example',
      fetch: async (url, init) => answer(String(url), String(init?.body)),
    },
  })
}
