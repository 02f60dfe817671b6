import fc from 'fast-check'
import type {
  Conversation,
  Effort,
  MediaSource,
  Part,
  Tool,
  ToolChoice,
  Turn,
} from '../../src/base/domain/conversation.ts'

/** What a dialect can express, so that a conversation crosses it without loss. */
export interface Expressible {
  /** Whether several texts, and texts between calls, stay apart in a turn of the assistant. */
  readonly mixedAssistantParts: boolean
  readonly sealedReasoning: boolean
  readonly reasoningText: boolean
  readonly cacheHints: boolean
  readonly documents: boolean
  readonly audio: boolean
  readonly resultMedia: boolean
  readonly resultErrors: boolean
  readonly systemTurns: boolean
  readonly customTools: boolean
  readonly namedFormats: boolean
  readonly penalties: boolean
  readonly topK: boolean
  readonly verbosity: boolean
  /** Arguments may be any text, not only JSON objects. */
  readonly brokenArguments: boolean
}

/** The wording varies, with characters that codecs often break: quotes, escapes, emojis, other scripts. */
export const words = fc
  .array(
    fc.constantFrom(
      'Hello',
      'a "quote"',
      '{"a":1}',
      'new\nline',
      '\\u00e9',
      '漢字',
      '👩‍💻',
      'é',
      '<b>',
      'sy1.',
      '\t tab',
    ),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map(list => list.join(' '))

const url: fc.Arbitrary<MediaSource> = fc.constantFrom(
  { url: 'https://example.com/a.png?b=c' },
  { url: 'https://example.com/' },
)
const base64 = fc.uint8Array({ minLength: 1, maxLength: 24 }).map(bytes => Buffer.from(bytes).toString('base64'))

const image: fc.Arbitrary<Part> = fc
  .oneof(
    url,
    base64.map(data => ({ mediaType: 'image/png', base64: data })),
  )
  .map(source => ({ kind: 'image', source }))
const document: fc.Arbitrary<Part> = fc.record({
  kind: fc.constant('document' as const),
  source: base64.map(data => ({ mediaType: 'application/pdf', base64: data })),
  name: fc.constant('report.pdf'),
})
const audio: fc.Arbitrary<Part> = base64.map(data => ({ kind: 'audio', format: 'wav', base64: data }))
const textPart: fc.Arbitrary<Part> = words.map(text => ({ kind: 'text', text }))

const jsonArguments = fc
  .dictionary(fc.constantFrom('path', 'q', '漢'), fc.oneof(words, fc.integer(), fc.boolean(), fc.constant(null)), {
    maxKeys: 3,
  })
  .map(value => JSON.stringify(value))
const brokenArguments = fc.constantFrom('{"path": "/tm', 'not json', '[1,2]', '"text"')
const toolNames = ['read_file', 'search'] as const

const jsonSchema = fc.constantFrom(
  { type: 'object', properties: { path: { type: 'string' } }, required: ['path'], additionalProperties: false },
  { type: 'object', properties: {} },
)

/** Turns as clients send them: user and assistant alternate, and each call has its result. */
function turns(can: Expressible): fc.Arbitrary<Turn[]> {
  const userPart = fc.oneof(
    { weight: 4, arbitrary: textPart },
    { weight: 1, arbitrary: image },
    ...(can.documents ? [{ weight: 1, arbitrary: document }] : []),
    ...(can.audio ? [{ weight: 1, arbitrary: audio }] : []),
  )
  const step = fc.record({
    user: fc.array(userPart, { minLength: 1, maxLength: 3 }),
    cache: fc.option(fc.constantFrom('short' as const, 'long' as const)),
    system: fc.option(words),
    reasoning: fc.option(words),
    seal: base64,
    isRedacted: fc.boolean(),
    texts: fc.array(words, { maxLength: can.mixedAssistantParts ? 3 : 1 }),
    calls: fc.array(
      fc.record({
        name: fc.constantFrom(...toolNames),
        isCustom: fc.boolean(),
        args: can.brokenArguments ? fc.oneof({ weight: 3, arbitrary: jsonArguments }, brokenArguments) : jsonArguments,
        result: fc.array(can.resultMedia ? fc.oneof(textPart, image) : textPart, {
          maxLength: can.resultMedia ? 3 : 1,
        }),
        isError: fc.boolean(),
      }),
      { maxLength: 3 },
    ),
    isMixed: fc.boolean(),
  })
  return fc.array(step, { minLength: 1, maxLength: 4 }).map(steps =>
    steps.flatMap((each, stepIndex): Turn[] => {
      const customs = each.calls.map(({ isCustom }) => isCustom && can.customTools)
      const ids = each.calls.map((_, index) => `call_${stepIndex}_${index}`)
      const calls = each.calls.map(
        ({ name, args }, index): Part => ({
          kind: 'tool_call',
          id: ids[index]!,
          name: customs[index] ? 'patch' : name,
          toolKind: customs[index] ? 'custom' : 'function',
          arguments: args,
        }),
      )
      const texts = each.texts.map((text): Part => ({ kind: 'text', text }))
      const spoken = can.mixedAssistantParts && each.isMixed ? [...calls, ...texts] : [...texts, ...calls]
      if (spoken.length === 0) spoken.push({ kind: 'text', text: 'Yes.' })
      const results = each.calls.map(
        ({ result, isError }, index): Part => ({
          kind: 'tool_result',
          callId: ids[index]!,
          toolKind: customs[index] ? 'custom' : 'function',
          content: result as never,
          isError: can.resultErrors && isError,
        }),
      )
      const user = each.cache !== null && can.cacheHints ? withCache(each.user, each.cache) : each.user
      return [
        { role: 'user', parts: user },
        ...(can.systemTurns && each.system !== null
          ? [{ role: 'system' as const, parts: [{ kind: 'text' as const, text: each.system }] }]
          : []),
        { role: 'assistant', parts: [...reasoningParts(can, each), ...spoken] },
        ...(results.length > 0 ? [{ role: 'user' as const, parts: results }] : []),
      ]
    }),
  )
}

function reasoningParts(
  can: Expressible,
  { reasoning, seal, isRedacted }: { reasoning: string | null; seal: string; isRedacted: boolean },
): Part[] {
  if (reasoning === null) return []
  if (can.sealedReasoning) {
    return isRedacted
      ? [{ kind: 'reasoning', text: '', seal: { family: 'anthropic', data: seal, isRedacted } }]
      : [{ kind: 'reasoning', text: reasoning, seal: { family: 'anthropic', data: seal } }]
  }
  return can.reasoningText ? [{ kind: 'reasoning', text: reasoning }] : []
}

function withCache(parts: readonly Part[], cache: 'short' | 'long'): Part[] {
  return parts.map((part, index) =>
    index === parts.length - 1 && part.kind !== 'audio' ? ({ ...part, cache } as Part) : part,
  )
}

function tools(can: Expressible): fc.Arbitrary<Tool[]> {
  const functions = fc.subarray([...toolNames]).chain(names =>
    fc.tuple(
      ...names.map(name =>
        fc.record({
          kind: fc.constant('function' as const),
          name: fc.constant(name as string),
          description: fc.option(words),
          parameters: jsonSchema,
          strict: fc.option(fc.boolean()),
        }),
      ),
    ),
  )
  const patch: Tool = { kind: 'custom', name: 'patch', description: 'Applies a patch.', parameters: null, strict: null }
  return functions.map((list): Tool[] => (can.customTools ? [...list, patch] : list))
}

/** Returns conversations that a dialect can express. */
export function arbitraryConversation(can: Expressible): fc.Arbitrary<Conversation> {
  const number = fc.option(fc.constantFrom(0, 0.5, 1))
  return fc
    .record({
      system: fc.option(words),
      turns: turns(can),
      tools: tools(can),
      choice: fc.option(fc.constantFrom('auto' as const, 'must' as const, 'only' as const)),
      parallel: fc.option(fc.boolean()),
      maxOutputTokens: fc.integer({ min: 1, max: 64_000 }),
      temperature: number,
      topP: number,
      presencePenalty: number,
      frequencyPenalty: number,
      seed: number,
      topK: fc.option(fc.constant(40)),
      stop: fc.subarray(['END', '\n\n.', '漢']),
      effort: fc.option(fc.constantFrom<Effort>('none', 'low', 'medium', 'high', 'xhigh', 'max')),
      hasFormat: fc.boolean(),
      schema: jsonSchema,
      verbosity: fc.option(fc.constantFrom('low' as const, 'high' as const)),
      endUser: fc.option(words),
      cacheKey: fc.option(words),
    })
    .map((r): Conversation => {
      const toolChoice = (): ToolChoice | null => {
        if (r.tools.length === 0 || r.choice === null) return null
        return r.choice === 'only' ? { kind: 'only', name: r.tools[0]!.name } : { kind: r.choice }
      }
      const choice = toolChoice()
      return {
        system: r.system === null ? [] : [{ kind: 'text', text: r.system }],
        turns: r.turns,
        tools: r.tools,
        toolChoice: choice,
        parallelToolCalls: choice === null ? null : r.parallel,
        maxOutputTokens: r.maxOutputTokens,
        sampling: {
          temperature: r.temperature,
          topP: r.temperature === null || can.penalties ? r.topP : null,
          topK: can.topK ? r.topK : null,
          presencePenalty: can.penalties ? r.presencePenalty : null,
          frequencyPenalty: can.penalties ? r.frequencyPenalty : null,
          seed: can.penalties ? r.seed : null,
          stop: r.stop,
        },
        reasoning: { effort: r.effort, isShown: null },
        outputFormat: r.hasFormat
          ? {
              kind: 'json_schema',
              name: can.namedFormats ? 'weather' : 'answer',
              schema: r.schema,
              description: can.namedFormats ? 'The weather.' : null,
              strict: can.namedFormats ? true : null,
            }
          : null,
        verbosity: can.verbosity ? r.verbosity : null,
        cacheKey: can.verbosity ? r.cacheKey : null,
        endUser: r.endUser,
      }
    })
}
