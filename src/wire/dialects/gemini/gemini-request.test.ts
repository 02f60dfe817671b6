import { describe, expect, it } from 'vitest'
import { parseGeminiTarget } from './gemini-path.ts'
import { parseGeminiRequest } from './gemini-request.ts'

const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
const parse = (body: object) => parseGeminiRequest(Buffer.from(JSON.stringify(body)), { model: 'demo', stream: false })

describe('a body of generateContent', () => {
  it('may use snake case, a single content and the routing fields', () => {
    const { conversation, facts } = parse({
      contents: {
        role: null,
        parts: [{ text: 'Hi' }, { inline_data: { mime_type: 'application/pdf', data: 'AAAA' } }],
      },
      system_instruction: { parts: [{ text: 'Be brief.' }] },
      generation_config: { max_output_tokens: 9, thinking_config: { thinking_budget: 5_000 }, speech_config: {} },
      safety_settings: [],
      privacy_mode: true,
      max_cost_usd: 0.01,
    })
    expect(conversation()).toMatchObject({
      system: [{ text: 'Be brief.' }],
      turns: [{ role: 'user', parts: [{ text: 'Hi' }, { kind: 'document' }] }],
      maxOutputTokens: 9,
      reasoning: { effort: 'medium' },
    })
    expect(facts).toMatchObject({
      constraints: { privacyMode: true },
      maxCostNanos: 10_000_000n,
      onInsufficient: 'clamp',
      droppedFields: ['safetySettings', 'generationConfig.speechConfig'],
    })
  })

  it('may leave out the signature of a call', () => {
    const call = { functionCall: { name: 'a', args: {} }, thoughtSignature: 'skip_thought_signature_validator' }
    const { conversation } = parse({ contents: [...contents, { role: 'model', parts: [call] }] })
    expect(conversation().turns[1]!.parts).toEqual([
      { kind: 'tool_call', id: 'call_0', name: 'a', toolKind: 'function', arguments: '{}' },
    ])
  })

  it.each([
    ['contents', {}],
    ['contents', { contents: [] }],
    ['contents[0].role', { contents: [{ role: 'robot', parts: [] }] }],
    ['contents[0].parts[0].text', { contents: [{ parts: [{ text: 7 }] }] }],
    ['contents[0].parts[0].inlineData.data', { contents: [{ parts: [{ inlineData: { mimeType: 'a/b' } }] }] }],
    ['contents[0].parts[0].fileData.fileUri', fileOf('http://10.0.0.1/')],
    ['contents[0].parts[0].fileData.fileUri', fileOf('https://generativelanguage.googleapis.com/v1beta/files/a')],
    ['contents[0].parts[0].functionResponse.name', { contents: [{ parts: [{ functionResponse: { response: {} } }] }] }],
    ['cachedContent', { contents, cachedContent: 'cachedContents/a' }],
    ['generationConfig.candidateCount', { contents, generationConfig: { candidateCount: 2 } }],
    ['generationConfig.responseModalities[0]', { contents, generationConfig: { responseModalities: ['IMAGE'] } }],
    ['tools[0].functionDeclarations[0].name', { contents, tools: [{ functionDeclarations: [{}] }] }],
    [
      'toolConfig.functionCallingConfig.allowedFunctionNames',
      {
        contents,
        toolConfig: { functionCallingConfig: { allowedFunctionNames: Array.from({ length: 1_025 }, () => 'f') } },
      },
    ],
    [
      'toolConfig.functionCallingConfig.mode',
      { contents, tools: [{ googleSearch: {} }], toolConfig: { functionCallingConfig: { mode: 'ANY' } } },
    ],
    ['tier', { contents, tier: 'best' }],
  ])('is refused with the place of the fault: %s', (param, body) => {
    expect(() => parse(body)).toThrow(expect.objectContaining({ param }))
  })
})

function fileOf(fileUri: string): object {
  return { contents: [{ parts: [{ fileData: { fileUri } }] }] }
}

describe('a target', () => {
  const target = (model: string, method: string, isSse = false) => ({ model, method, isSse })

  it.each([
    ['/v1beta/models/gemini-3.8-flash:generateContent', target('gemini-3.8-flash', 'generateContent')],
    [
      '/v1beta/models/qwen/qwen3%3A8b:streamGenerateContent?alt=sse',
      target('qwen/qwen3:8b', 'streamGenerateContent', true),
    ],
    ['/v1beta/models/qwen%2Fqwen3:8b:streamGenerateContent?x=1', target('qwen/qwen3:8b', 'streamGenerateContent')],
    ['/v1beta/models/demo:countTokens', target('demo', 'countTokens')],
    ['/v1/models/demo:generateContent', null],
    ['/v1beta/models/demo:predict', null],
    ['/v1beta/models/%ff:generateContent', null],
    ['/v1beta/models/:generateContent', null],
  ])('%s names its model and method', (path, expected) => {
    expect(parseGeminiTarget(path)).toEqual(expected)
  })
})
