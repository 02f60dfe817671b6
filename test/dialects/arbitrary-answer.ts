import fc from 'fast-check'
import type { AnswerEvent, AnswerFinish, UsageParts } from '../../src/base/domain/answer-event.ts'
import type { Seal } from '../../src/base/domain/conversation.ts'

/** What the answers of a dialect can contain. */
export interface AnswerShape {
  readonly sealFamily: Seal['family']
  readonly customTools: boolean
  readonly namespaces: boolean
  readonly refusals: boolean
  /** Calls have seals of their own. */
  readonly sealedCalls: boolean
  /** Arguments arrive in pieces. */
  readonly splitArguments: boolean
  readonly longCacheWrites: boolean
  readonly cacheWrites: boolean
  /** Texts have annotations. */
  readonly annotations?: true
}

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
const texts = fc.array(text, { minLength: 1, maxLength: 4 })
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,9}$/)

/** Random answers: parts one after the other, `finish`, then `usage`. */
export function arbitraryAnswer(shape: AnswerShape): fc.Arbitrary<AnswerEvent[]> {
  return fc
    .record({
      parts: fc.array(arbitraryPart(shape), { maxLength: 5 }),
      finish: fc.constantFrom<AnswerFinish>('end', 'limit', 'refused'),
      usage: arbitraryUsage(shape),
    })
    .map(({ parts, finish, usage }) => {
      const events = numberedCalls(placed(parts.flat()))
      const hasCalls = events.some(event => event.kind === 'tool_start')
      const reason = finish === 'end' && hasCalls ? 'tools' : finish
      return [...events, { kind: 'finish', reason }, { kind: 'usage', usage }]
    })
}

/**
 * Joins neighbouring texts, reasoning, refusals and arguments: how they are split has no meaning. Annotations come after the
 * text around them.
 */
export function joinedEvents(events: readonly AnswerEvent[]): AnswerEvent[] {
  const joined: AnswerEvent[] = []
  const annotations: AnswerEvent[] = []
  for (const event of events) {
    if (event.kind === 'annotation') {
      annotations.push(event)
      continue
    }
    if (event.kind !== 'text') joined.push(...annotations.splice(0))
    const last = joined.at(-1)
    if (last && 'text' in last && 'text' in event && last.kind === event.kind && !('seal' in last)) {
      joined[joined.length - 1] = { ...last, text: last.text + event.text }
    } else joined.push(event)
  }
  return [...joined, ...annotations]
}

function arbitraryPart(shape: AnswerShape): fc.Arbitrary<AnswerEvent[]> {
  const spoken = fc
    .tuple(texts, fc.array(arbitraryAnnotation, { maxLength: shape.annotations ? 2 : 0 }))
    .map(([list, annotations]) => [
      ...list.map((value): AnswerEvent => ({ kind: 'text', text: value })),
      ...annotations,
    ])
  const refused = texts.map(list => list.map((value): AnswerEvent => ({ kind: 'refusal', text: value })))
  const thought = fc
    .record({
      list: fc.oneof(texts, fc.constant<string[]>([])),
      data: fc.base64String({ minLength: 4, maxLength: 16 }),
    })
    .map(({ list, data }): AnswerEvent[] => [
      ...list.map((value): AnswerEvent => ({ kind: 'reasoning', text: value })),
      { kind: 'reasoning_seal', seal: { family: shape.sealFamily, data } },
    ])
  const call = fc
    .record({
      called: name,
      namespace: fc.option(name),
      isCustom: fc.boolean(),
      input: texts,
      args: fc.dictionary(name, text, { maxKeys: 2 }),
      at: fc.nat({ max: 10 }),
      seal: fc.option(fc.base64String({ minLength: 4, maxLength: 16 })),
    })
    .map(({ called, namespace, isCustom, input, args, at, seal }): AnswerEvent[] => {
      const custom = shape.customTools && isCustom
      const json = JSON.stringify(args)
      const pieces = custom ? input : shape.splitArguments ? [json.slice(0, at), json.slice(at)] : [json]
      return [
        {
          kind: 'tool_start',
          id: '',
          name: called,
          ...(shape.namespaces && namespace !== null && { namespace }),
          toolKind: custom ? 'custom' : 'function',
          ...(shape.sealedCalls && seal !== null && { seal: { family: shape.sealFamily, data: seal } }),
        },
        ...pieces.filter(Boolean).map((value): AnswerEvent => ({ kind: 'tool_arguments', text: value })),
        { kind: 'tool_end' },
      ]
    })
  return shape.refusals ? fc.oneof(spoken, thought, call, refused) : fc.oneof(spoken, thought, call)
}

/** The positions count from the start of the part that it belongs to. */
const arbitraryAnnotation = fc
  .record({ start: fc.nat(3), length: fc.nat(3), title: text, hasPositions: fc.boolean() })
  .map(({ start, length, title, hasPositions }): AnswerEvent => {
    const positions = hasPositions && { start_index: start, end_index: start + length }
    return { kind: 'annotation', annotation: { type: 'url_citation', url: 'https://a.test', title, ...positions } }
  })

/** Makes the positions count from the start of the whole text. */
function placed(events: readonly AnswerEvent[]): AnswerEvent[] {
  let length = 0
  let partStart = 0
  let isInText = false
  return events.map(event => {
    if (event.kind === 'text') {
      if (!isInText) partStart = length
      length += [...event.text].length
    }
    isInText = event.kind === 'text' || event.kind === 'annotation'
    if (event.kind !== 'annotation') return event
    const { start_index: start, end_index: end } = event.annotation
    if (typeof start !== 'number' || typeof end !== 'number') return event
    return {
      ...event,
      annotation: { ...event.annotation, start_index: start + partStart, end_index: end + partStart },
    }
  })
}

function numberedCalls(events: readonly AnswerEvent[]): AnswerEvent[] {
  let calls = 0
  return events.map(event => (event.kind === 'tool_start' ? { ...event, id: `call_${calls++}` } : event))
}

function arbitraryUsage({ cacheWrites, longCacheWrites }: AnswerShape): fc.Arbitrary<UsageParts> {
  const count = fc.nat({ max: 100_000 })
  return fc.record({
    freshTokens: count,
    cacheReadTokens: count,
    cacheWriteTokens: cacheWrites ? count : fc.constant(0),
    cacheWriteLongTokens: longCacheWrites ? count : fc.constant(0),
    outputTokens: fc.integer({ min: 1, max: 100_000 }),
    reasoningTokens: fc.constantFrom(0, 1),
  })
}
