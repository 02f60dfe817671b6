import { describe, expect, it } from 'vitest'
import type { AnswerEvent } from '../../../base/domain/answer-event.ts'
import { parseResponsesRequest } from '../responses/responses-request.ts'
import { ToolNames } from '../tool-names.ts'
import { GeminiDecoder, readGeminiAnswer } from './upstream-answer.ts'
import { geminiRequestBody } from './upstream-request.ts'

const noNames = new ToolNames({ tools: [] })
const text = (value: string) => ({ candidates: [{ content: { role: 'model', parts: [{ text: value }] } }] })
const ending = (finishReason: string) => ({ candidates: [{ content: { parts: [{ text: '' }] }, finishReason }] })
const call = (name: string, args: object, more: object = {}) => ({
  candidates: [{ content: { parts: [{ functionCall: { name, args }, ...more }] } }],
})

function read(chunks: readonly object[], names = noNames): AnswerEvent[] {
  const decoder = new GeminiDecoder(names, 'call_x_')
  return [...chunks.flatMap(chunk => decoder.push({ event: '', data: JSON.stringify(chunk) })), ...decoder.end()]
}

describe('an answer of Gemini', () => {
  it('has no more than 128 calls', () => {
    const parts = Array.from({ length: 1_000 }, () => ({ functionCall: { name: 'f', args: {} } }))
    const many = { candidates: [{ content: { parts } }] }
    const events = read([many, many, ending('STOP')])
    expect(events.filter(event => event.kind === 'tool_start')).toHaveLength(128)
    expect(events.at(-1)).toEqual({ kind: 'finish', reason: 'tools' })
  })

  it('has thoughts, seals, calls without ids, and its last usage', () => {
    const thought = { candidates: [{ content: { parts: [{ text: 'Hm', thought: true }] } }] }
    const usageMetadata = {
      promptTokenCount: 10,
      cachedContentTokenCount: 4,
      toolUsePromptTokenCount: 2,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 3,
    }
    expect(
      read([
        { ...thought, usageMetadata: { promptTokenCount: 1 } },
        text('Hi'),
        call('a', { x: 1 }, { thoughtSignature: 'c2ln' }),
        call('b', {}),
        { ...ending('STOP'), usageMetadata },
      ]),
    ).toEqual([
      { kind: 'reasoning', text: 'Hm' },
      { kind: 'text', text: 'Hi' },
      {
        kind: 'tool_start',
        id: 'call_x_0',
        name: 'a',
        toolKind: 'function',
        seal: { family: 'google', data: 'c2ln' },
      },
      { kind: 'tool_arguments', text: '{"x":1}' },
      { kind: 'tool_end' },
      { kind: 'tool_start', id: 'call_x_1', name: 'b', toolKind: 'function' },
      { kind: 'tool_arguments', text: '{}' },
      { kind: 'tool_end' },
      { kind: 'finish', reason: 'tools' },
      {
        kind: 'usage',
        usage: {
          freshTokens: 8,
          cacheReadTokens: 4,
          cacheWriteTokens: 0,
          cacheWriteLongTokens: 0,
          outputTokens: 8,
          reasoningTokens: 3,
        },
      },
    ])
  })

  it.each([
    ['STOP', 'end'],
    ['MAX_TOKENS', 'limit'],
    ['SAFETY', 'refused'],
    ['RECITATION', 'refused'],
    ['PROHIBITED_CONTENT', 'refused'],
    ['OTHER', 'end'],
  ])('that ends with %s has the finish %s', (reason, finish) => {
    expect(read([text('Hi'), ending(reason)]).at(-1)).toEqual({ kind: 'finish', reason: finish })
  })

  it.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS', 'MALFORMED_RESPONSE'])(
    'that ends with %s is a fault of the upstream',
    reason => {
      expect(() => read([ending(reason)])).toThrow(expect.objectContaining({ outcome: 'malformed' }))
    },
  )

  it('is refused when the prompt was blocked', () => {
    const blocked = { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 9 } }
    expect(read([blocked])).toMatchObject([{ kind: 'finish', reason: 'refused' }, { kind: 'usage' }])
  })

  it.each([
    [429, 'Resource has been exhausted', 'busy'],
    [400, 'API key not valid. Please pass a valid API key.', 'credential_rejected'],
    [
      400,
      'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      'request_rejected',
    ],
    [503, 'The model is overloaded.', 'server_error'],
  ])('that is the error %s %s fails as %3$s', (code, message, outcome) => {
    expect(() => read([{ error: { code, message, status: 'X' } }])).toThrow(expect.objectContaining({ outcome }))
    const whole = JSON.stringify({ error: { code, message } })
    expect(() => readGeminiAnswer(whole, noNames, '')).toThrow(expect.objectContaining({ outcome }))
  })

  it('fails when it breaks off', () => {
    expect(() => read([text('Hi')])).toThrow(expect.objectContaining({ outcome: 'server_error' }))
    expect(() => readGeminiAnswer('[]', noNames, '')).toThrow(expect.objectContaining({ outcome: 'malformed' }))
  })
})

describe('a request of Codex at Gemini', () => {
  const conversation = parseResponsesRequest(
    Buffer.from(
      JSON.stringify({
        model: 'demo',
        instructions: 'Be brief.',
        input: [
          { role: 'user', content: 'Hi' },
          { type: 'reasoning', summary: [], encrypted_content: 'sy1.google..c2ln' },
          { type: 'function_call', call_id: 'call_1', namespace: 'mcp__files', name: 'read', arguments: '{"a":1}' },
          { type: 'custom_tool_call', call_id: 'call_2', name: 'exec', input: 'ls' },
          { type: 'function_call_output', call_id: 'call_1', output: 'text' },
          { role: 'developer', content: 'Hurry.' },
          { type: 'function_call', call_id: 'call_3', name: 'broken', arguments: '{"a' },
        ],
        tools: [
          { type: 'namespace', name: 'mcp__files', tools: [{ type: 'function', name: 'read', parameters: null }] },
          { type: 'custom', name: 'exec', description: 'Runs' },
        ],
        tool_choice: { type: 'function', name: 'read' },
        reasoning: { effort: 'xhigh' },
        text: { format: { type: 'json_schema', name: 'a', schema: { type: 'object' } } },
      }),
    ),
  ).conversation()
  const body = geminiRequestBody(conversation, 50)

  it('has flat names, functions for custom tools, moved and stand-in seals, and results with names', () => {
    const lost = 'There is no result: the call was interrupted, or its result was removed.'
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'Hi' }] },
        {
          role: 'model',
          parts: [
            { functionCall: { id: 'call_1', name: 'mcp__files__read', args: { a: 1 } }, thoughtSignature: 'c2ln' },
            { functionCall: { id: 'call_2', name: 'exec', args: { input: 'ls' } } },
          ],
        },
        {
          role: 'user',
          parts: [
            { functionResponse: { id: 'call_1', name: 'mcp__files__read', response: { output: 'text' } } },
            { functionResponse: { id: 'call_2', name: 'exec', response: { error: lost } } },
            { text: 'Hurry.' },
          ],
        },
        {
          role: 'model',
          parts: [
            {
              functionCall: { id: 'call_3', name: 'broken', args: { _raw: '{"a' } },
              thoughtSignature: 'skip_thought_signature_validator',
            },
          ],
        },
        { role: 'user', parts: [{ functionResponse: { id: 'call_3', name: 'broken', response: { error: lost } } }] },
      ],
      tools: [
        {
          functionDeclarations: [
            { name: 'mcp__files__read' },
            {
              name: 'exec',
              description: 'Runs',
              parametersJsonSchema: expect.objectContaining({ required: ['input'] }),
            },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['mcp__files__read'] } },
      generationConfig: {
        maxOutputTokens: 50,
        responseMimeType: 'application/json',
        responseJsonSchema: { type: 'object' },
        thinkingConfig: { thinkingLevel: 'HIGH' },
      },
    })
  })

  it('gets its own names and kinds of tools back', () => {
    const names = new ToolNames(conversation)
    expect(
      read([call('mcp__files__read', { a: 1 }), call('exec', { input: 'ls' }), ending('STOP')], names),
    ).toMatchObject([
      { kind: 'tool_start', name: 'read', namespace: 'mcp__files', toolKind: 'function' },
      { text: '{"a":1}' },
      { kind: 'tool_end' },
      { kind: 'tool_start', name: 'exec', toolKind: 'custom' },
      { text: 'ls' },
      { kind: 'tool_end' },
      { kind: 'finish', reason: 'tools' },
    ])
  })
})
