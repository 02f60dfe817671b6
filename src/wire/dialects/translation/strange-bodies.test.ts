import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mutated } from '../../../../test/dialects/mutated-json.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { parseGeminiRequest } from '../gemini/gemini-request.ts'
import { GeminiDecoder, readGeminiAnswer } from '../gemini/upstream-answer.ts'
import { geminiRequestBody } from '../gemini/upstream-request.ts'
import { parseResponsesRequest } from '../responses/responses-request.ts'
import { responsesRequestBody } from '../responses/upstream-request.ts'
import { readResponse } from '../responses/upstream-response.ts'
import { ResponsesDecoder } from '../responses/upstream-stream.ts'
import { ToolNames } from '../tool-names.ts'

const responsesBody = {
  model: 'demo',
  instructions: 'Be brief.',
  input: [
    { role: 'user', content: [{ type: 'input_text', text: 'Hi' }, image('input_image')] },
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'sy1.google.a.b' },
    { type: 'function_call', call_id: 'call_1', namespace: 'a', name: 'b', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: 'x' }] },
    { type: 'tool_search_output', call_id: 'call_2', tools: [] },
    { type: 'item_reference', id: 'rs_1' },
    {
      type: 'message',
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'x' },
        { type: 'refusal', refusal: 'n' },
      ],
    },
  ],
  tools: [
    { type: 'function', name: 'c', parameters: { type: 'object' }, strict: true },
    { type: 'namespace', name: 'a', tools: [{ type: 'custom', name: 'b', format: { type: 'text' } }] },
    { type: 'tool_search', execution: 'client' },
  ],
  tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'c' }] },
  reasoning: { effort: 'low', summary: 'auto' },
  text: { format: { type: 'json_schema', name: 'a', schema: {} }, verbosity: 'low' },
  metadata: { a: 'b' },
}

const geminiBody = {
  systemInstruction: { parts: [{ text: 'Be brief.' }] },
  contents: [
    { role: 'user', parts: [{ text: 'Hi' }, { inlineData: { mimeType: 'image/png', data: 'AA' } }] },
    { role: 'model', parts: [{ functionCall: { name: 'a', args: {} }, thoughtSignature: 'AA' }] },
    { role: 'user', parts: [{ functionResponse: { name: 'a', response: { output: 'x' }, parts: [] } }] },
    { role: 'user', parts: [{ fileData: { fileUri: 'https://example.com/a.png', mimeType: 'image/png' } }] },
  ],
  tools: [
    { functionDeclarations: [{ name: 'a', parameters: { type: 'OBJECT', properties: { x: { type: 'STRING' } } } }] },
  ],
  toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['a'] } },
  generationConfig: {
    maxOutputTokens: 9,
    thinkingConfig: { thinkingLevel: 'LOW' },
    responseSchema: { type: 'OBJECT' },
  },
}

const usage = { input_tokens: 1, output_tokens: 2, input_tokens_details: { cached_tokens: 1 } }
const message = { type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }
const call = { type: 'function_call', call_id: 'call_1', name: 'a', arguments: '{}' }
const responseEvents = [
  { type: 'response.created', response: {} },
  { type: 'response.output_item.added', output_index: 0, item: message },
  { type: 'response.output_text.delta', output_index: 0, delta: 'Hi' },
  { type: 'response.output_item.done', output_index: 0, item: message },
  { type: 'response.output_item.added', output_index: 1, item: call },
  { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{}' },
  { type: 'response.output_item.done', output_index: 1, item: call },
  { type: 'response.completed', response: { status: 'completed', output: [message, call], usage } },
]
const geminiChunks = [
  { candidates: [{ content: { parts: [{ text: 'Hm', thought: true, thoughtSignature: 'AA' }] } }] },
  { candidates: [{ content: { parts: [{ functionCall: { name: 'a', args: { x: 1 } } }] } }] },
  { candidates: [{ finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 } },
]
const noNames = new ToolNames({ tools: [] })

it.each([
  ['responses', responsesBody, (body: Buffer) => parseResponsesRequest(body).conversation()],
  ['gemini', geminiBody, (body: Buffer) => parseGeminiRequest(body, { model: 'demo', stream: false }).conversation()],
] as const)('a strange body of %s is refused, or can be sent to every upstream', (_, usual, parse) => {
  let accepted = 0
  fc.assert(
    fc.property(mutated(usual), body => {
      const conversation = unless(ApiError, () => parse(Buffer.from(JSON.stringify(body))))
      if (conversation === null) return
      accepted++
      responsesRequestBody(conversation, { model: 'demo', maxTokens: 9, stream: true })
      geminiRequestBody(conversation, 9)
    }),
    { numRuns: 1_000 },
  )
  expect(accepted).toBeGreaterThan(20)
})

it.each([
  ['a stream of a Responses server', responseEvents, (events: unknown) => readStream(events, new ResponsesDecoder())],
  ['a stream of Gemini', geminiChunks, (events: unknown) => readStream(events, new GeminiDecoder(noNames, ''))],
  ['a whole response', responseEvents.at(-1)!.response!, (body: unknown) => readResponse(JSON.stringify(body))],
  [
    'a whole answer of Gemini',
    geminiChunks[1]!,
    (body: unknown) => readGeminiAnswer(JSON.stringify(body), noNames, ''),
  ],
] as const)('%s that is strange is read, or is a failure of the upstream', (_, usual, read) => {
  fc.assert(
    fc.property(mutated(usual), value => {
      const events = unless(UpstreamFailure, () => read(value))
      for (const event of events ?? []) if ('text' in event) expect(typeof event.text).toBe('string')
    }),
    { numRuns: 500 },
  )
})

function readStream(events: unknown, decoder: ResponsesDecoder | GeminiDecoder) {
  const list = Array.isArray(events) ? events : [events]
  return [...list.flatMap(event => decoder.push({ event: '', data: JSON.stringify(event) })), ...decoder.end()]
}

/** Returns null if `run` throws the expected kind of error. */
function unless<Result>(expected: typeof ApiError | typeof UpstreamFailure, run: () => Result): Result | null {
  try {
    return run()
  } catch (error) {
    if (error instanceof expected) return null
    throw error
  }
}

function image(type: string): object {
  return { type, image_url: 'data:image/png;base64,AAAA', detail: 'high' }
}
