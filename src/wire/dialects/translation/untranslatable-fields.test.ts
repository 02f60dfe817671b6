import { describe, expect, it } from 'vitest'
import type { Conversation } from '../../../base/domain/conversation.ts'
import { parseGeminiRequest } from '../gemini/gemini-request.ts'
import { geminiRequestBody } from '../gemini/upstream-request.ts'
import { parseResponsesRequest } from '../responses/responses-request.ts'
import { responsesRequestBody } from '../responses/upstream-request.ts'
import { untranslatableFields } from './untranslatable-fields.ts'

/** A conversation that uses everything. */
const full: Conversation = {
  system: [{ kind: 'text', text: 'Be brief.', cache: 'short' }],
  turns: [
    {
      role: 'user',
      parts: [
        { kind: 'text', text: 'Hi' },
        { kind: 'audio', format: 'wav', base64: 'AAAA' },
      ],
    },
  ],
  tools: [
    { kind: 'function', name: 'a', description: null, parameters: { type: 'object' }, strict: true },
    {
      kind: 'custom',
      name: 'b',
      description: null,
      parameters: null,
      strict: null,
      grammar: { syntax: 'lark', definition: 'start: "a"' },
    },
  ],
  toolChoice: { kind: 'auto' },
  parallelToolCalls: false,
  maxOutputTokens: 9,
  sampling: {
    temperature: 0.5,
    topP: 0.5,
    topK: 4,
    presencePenalty: 0.5,
    frequencyPenalty: 0.5,
    seed: 7,
    stop: ['END'],
  },
  reasoning: { effort: 'low', isShown: true },
  outputFormat: null,
  verbosity: 'low',
  cacheKey: 'key',
  endUser: 'user',
}

describe('what a conversation loses', () => {
  const dropped = ['top_k', 'presence_penalty', 'frequency_penalty', 'seed', 'cache_control']

  it('at a Responses server', () => {
    expect(untranslatableFields(full, 'responses')).toEqual({ missing: ['audio', 'stop'], dropped })
    const target = { model: 'demo', maxTokens: 9, stream: false }
    const back = parseResponsesRequest(json(responsesRequestBody(full, target))).conversation()
    const { topK, presencePenalty, frequencyPenalty, seed, stop, ...kept } = full.sampling
    expect(back).toMatchObject({ ...withoutLost(full), sampling: { ...kept, topK: null, seed: null, stop: [] } })
  })

  it('at Gemini', () => {
    expect(untranslatableFields(full, 'gemini')).toEqual({
      missing: [],
      dropped: [
        ...['verbosity', 'prompt_cache_key', 'user', 'parallel_tool_calls'],
        ...['strict', 'grammar', 'cache_control'],
      ],
    })
    const back = parseGeminiRequest(json(geminiRequestBody(full, 9)), { model: 'demo', stream: false }).conversation()
    expect(back).toMatchObject({ sampling: full.sampling, reasoning: full.reasoning, turns: full.turns })
    expect(back).toMatchObject({ verbosity: null, cacheKey: null, endUser: null, parallelToolCalls: null })
  })

  it('is nothing for plain text', () => {
    const plain = parseResponsesRequest(json({ model: 'demo', input: 'Hi' })).conversation()
    expect(untranslatableFields(plain, 'responses')).toEqual({ missing: [], dropped: [] })
    expect(untranslatableFields(plain, 'gemini')).toEqual({ missing: [], dropped: [] })
  })
})

/** The conversation without audio and cache points. */
function withoutLost({ sampling: _, ...conversation }: Conversation): object {
  return {
    ...conversation,
    system: [{ kind: 'text', text: 'Be brief.' }],
    turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hi' }] }],
  }
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value))
}
