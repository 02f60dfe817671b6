import fc from 'fast-check'
import type {
  Conversation,
  MediaSource,
  OutputFormat,
  Part,
  Seal,
  TextPart,
  Tool,
  Turn,
} from '../../src/base/domain/conversation.ts'

/** What a dialect can express. */
export interface Expressible {
  readonly sealFamily: Seal['family']
  /** Calls have seals of their own. */
  readonly sealedCalls?: boolean
  /** The result of a tool is one text, then media. */
  readonly textFirstResults?: boolean
  readonly customTools: boolean
  readonly namespaces: boolean
  readonly toolErrors: boolean
  /** System turns after the first turn. */
  readonly lateSystem: boolean
  readonly refusals: boolean
  readonly imageDetail: boolean
  readonly documentNames: boolean
  readonly sampling: readonly (keyof Conversation['sampling'])[]
  readonly efforts: readonly Conversation['reasoning']['effort'][]
  readonly isShown: readonly Conversation['reasoning']['isShown'][]
  readonly verbosity: boolean
  readonly cacheKey: boolean
  readonly endUser: boolean
  readonly parallelToolCalls: boolean
  readonly schemaNames: boolean
  /** `null` where a tool may leave the field out. */
  readonly strict: readonly (boolean | null)[]
}

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,9}$/).map(word => word.replaceAll('__', '_x'))
const base64 = fc.base64String({ minLength: 4, maxLength: 40 }).filter(data => data !== '')
const schema = fc.constantFrom(
  { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
  { type: 'object', properties: {} },
)
const callArguments = fc.dictionary(name, fc.oneof(text, fc.integer(), fc.boolean()), { maxKeys: 3 })

const media = (mediaType: string, url: string): fc.Arbitrary<MediaSource> =>
  fc.oneof(
    base64.map(data => ({ mediaType, base64: data })),
    fc.constant({ url }),
  )

/** Random conversations that a dialect can express exactly. Neighbouring turns have different roles. */
export function arbitraryConversation(can: Expressible): fc.Arbitrary<Conversation> {
  return fc
    .record({
      system: fc.array(textPart, { maxLength: 2 }),
      turns: fc.array(arbitraryRound(can), { minLength: 1, maxLength: 4 }),
      tools: fc.uniqueArray(arbitraryTool(can), {
        maxLength: 4,
        selector: tool => `${tool.namespace} ${tool.name}`,
      }),
      choice: fc.constantFrom('auto', 'none', 'must', 'only', null),
      parallel: can.parallelToolCalls ? fc.constantFrom(true, false, null) : fc.constant(null),
      maxOutputTokens: fc.option(fc.integer({ min: 1, max: 100_000 })),
      sampling: fc.record(samplingFields(can)),
      effort: fc.constantFrom(...can.efforts),
      isShown: fc.constantFrom(...can.isShown),
      outputFormat: arbitraryFormat(can),
      verbosity: can.verbosity ? fc.constantFrom('low', 'medium', 'high', null) : fc.constant(null),
      cacheKey: can.cacheKey ? fc.option(text) : fc.constant(null),
      endUser: can.endUser ? fc.option(text) : fc.constant(null),
    })
    .map(({ turns, tools, choice, parallel, effort, isShown, ...rest }) => {
      const [tool] = tools
      const named = tool && { name: tool.name, ...(tool.namespace !== undefined && { namespace: tool.namespace }) }
      return {
        ...rest,
        turns: withCallIds(turns.flat()),
        tools: groupedByNamespace(tools),
        toolChoice:
          named === undefined || choice === null
            ? null
            : choice === 'only'
              ? { kind: 'only' as const, ...named }
              : { kind: choice },
        parallelToolCalls: named === undefined ? null : parallel,
        reasoning: { effort, isShown },
      } as Conversation
    })
}

const textPart: fc.Arbitrary<TextPart> = text.map(value => ({ kind: 'text', text: value }))

/** A turn of the user, one of the model, and the results of its calls. */
function arbitraryRound(can: Expressible): fc.Arbitrary<Turn[]> {
  const image = fc
    .record({ source: media('image/png', 'https://example.com/a.png'), detail: fc.constantFrom('high', undefined) })
    .map(
      ({ source, detail }): Part => ({
        kind: 'image',
        source,
        ...(can.imageDetail && detail !== undefined && { detail }),
      }),
    )
  const document = media('application/pdf', 'https://example.com/a.pdf').map(
    (source): Part => ({
      kind: 'document',
      source,
      ...(can.documentNames && 'base64' in source && { name: 'a.pdf' }),
    }),
  )
  const call = fc
    .record({
      name,
      namespace: fc.option(name),
      isCustom: fc.boolean(),
      args: callArguments,
      input: text,
      data: base64,
    })
    .map(({ name: called, namespace, isCustom, args, input, data }): Part => {
      const custom = can.customTools && isCustom
      return {
        kind: 'tool_call',
        id: '',
        name: called,
        ...(can.namespaces && namespace !== null && { namespace }),
        toolKind: custom ? 'custom' : 'function',
        arguments: custom ? input : JSON.stringify(args),
        ...(can.sealedCalls && { seal: { family: can.sealFamily, data } }),
      }
    })
  const reasoning = fc.record({ text: fc.oneof(text, fc.constant('')), data: base64 }).map(
    ({ text: thought, data }): Part => ({
      kind: 'reasoning',
      text: thought,
      seal: { family: can.sealFamily, data },
    }),
  )
  const refusal = text.map((value): Part => ({ kind: 'refusal', text: value }))
  const said = can.refusals ? fc.oneof(textPart, refusal) : textPart
  const result = fc.record({
    content: can.textFirstResults
      ? fc
          .tuple(fc.array(textPart, { minLength: 1, maxLength: 1 }), fc.array(image, { maxLength: 1 }))
          .map(each => each.flat())
      : fc.array(fc.oneof(textPart, image), { minLength: 1, maxLength: 2 }),
    isError: can.toolErrors ? fc.boolean() : fc.constant(false),
  })
  return fc
    .record({
      user: fc.array(fc.oneof(textPart, image, document), { minLength: 1, maxLength: 3 }),
      thought: fc.array(reasoning, { maxLength: 1 }),
      said: fc.array(said, { maxLength: 2 }),
      calls: fc.array(call, { maxLength: 2 }),
      results: fc.array(result, { minLength: 2, maxLength: 2 }),
      late: fc.array(textPart, { maxLength: 1 }),
    })
    .map(({ user, thought, said: spoken, calls, results, late }) => {
      const model: Part[] = [...thought, ...spoken, ...calls]
      if (model.length === 0 || (spoken.length === 0 && calls.length === 0)) {
        model.push({ kind: 'text', text: 'Yes.' })
      }
      const answered = calls.map((each, i): Part => {
        const { toolKind } = each as Extract<Part, { kind: 'tool_call' }>
        return { kind: 'tool_result', callId: '', toolKind, ...results[i]! } as Part
      })
      return [
        { role: 'user', parts: user },
        ...(can.lateSystem && late.length > 0 ? [{ role: 'system' as const, parts: late }] : []),
        { role: 'assistant', parts: model },
        ...(answered.length > 0 ? [{ role: 'user' as const, parts: answered }] : []),
      ]
    })
}

/** Gives each call and its result the same id, and joins neighbouring turns of one role. */
function withCallIds(turns: readonly Turn[]): Turn[] {
  let calls = 0
  let results = 0
  const joined: { role: Turn['role']; parts: Part[] }[] = []
  for (const { role, parts } of turns) {
    const numbered = parts.map(part => {
      if (part.kind === 'tool_call') return { ...part, id: `call_${calls++}` }
      return part.kind === 'tool_result' ? { ...part, callId: `call_${results++}` } : part
    })
    const last = joined.at(-1)
    if (last?.role === role) last.parts.push(...numbered)
    else joined.push({ role, parts: numbered })
  }
  return joined
}

function arbitraryTool(can: Expressible): fc.Arbitrary<Tool> {
  return fc
    .record({
      name,
      namespace: fc.option(name),
      isCustom: fc.boolean(),
      description: fc.option(text),
      parameters: fc.option(schema),
      strict: fc.constantFrom(...can.strict),
      grammar: fc.constantFrom(undefined, { syntax: 'lark', definition: 'start: "a"' }),
    })
    .map(({ isCustom, namespace, grammar, ...tool }): Tool => {
      const custom = can.customTools && isCustom
      return {
        ...tool,
        kind: custom ? 'custom' : 'function',
        ...(can.namespaces && namespace !== null && { namespace }),
        ...(custom && { parameters: null, strict: null, ...(grammar && { grammar }) }),
      }
    })
}

/** Dialects with namespaces keep the tools of one namespace together. */
function groupedByNamespace(tools: readonly Tool[]): Tool[] {
  const groups = new Map<string, Tool[]>()
  tools.forEach((tool, i) => {
    const key = tool.namespace === undefined ? `${i}` : `ns ${tool.namespace}`
    groups.set(key, [...(groups.get(key) ?? []), tool])
  })
  return [...groups.values()].flat()
}

function arbitraryFormat(can: Expressible): fc.Arbitrary<OutputFormat | null> {
  return fc.oneof(
    fc.constant(null),
    fc.constant({ kind: 'json' as const }),
    fc
      .record({ schema, description: fc.option(text), strict: fc.constantFrom(true, false, null) })
      .map(({ schema: shape, description, strict }) =>
        can.schemaNames
          ? { kind: 'json_schema' as const, name: 'answer', schema: shape, description, strict }
          : { kind: 'json_schema' as const, name: 'answer', schema: shape, description: null, strict: null },
      ),
  )
}

function samplingFields({ sampling }: Expressible) {
  const field = <Value>(key: keyof Conversation['sampling'], value: fc.Arbitrary<Value>) =>
    sampling.includes(key) ? fc.option(value) : fc.constant(null)
  const half = fc.integer({ min: 0, max: 8 }).map(eighths => eighths / 8)
  return {
    temperature: field('temperature', half),
    topP: field('topP', half),
    topK: field('topK', fc.integer({ min: 1, max: 100 })),
    presencePenalty: field('presencePenalty', half),
    frequencyPenalty: field('frequencyPenalty', half),
    seed: field('seed', fc.nat()),
    stop: sampling.includes('stop') ? fc.array(text, { maxLength: 3 }) : fc.constant([]),
  }
}
