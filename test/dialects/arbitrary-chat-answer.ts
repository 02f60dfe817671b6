import fc from 'fast-check'
import type { AnswerEvent } from '../../src/base/domain/answer-event.ts'
import type { Seal } from '../../src/base/domain/conversation.ts'
import { words } from './arbitrary-chat-conversation.ts'

const data = fc.base64String({ minLength: 4, maxLength: 16 })
const anthropicSeal: fc.Arbitrary<Seal> = data.map(text => ({ family: 'anthropic', data: text }))
const foreignSeal: fc.Arbitrary<Seal> = fc.record({
  family: fc.constantFrom('openai' as const, 'google' as const),
  data,
  account: fc.constantFrom('a1', 'b_2'),
})
const redacted: fc.Arbitrary<Seal> = data.map(text => ({ family: 'anthropic', data: text, isRedacted: true }))

const toolArguments = fc
  .dictionary(fc.constantFrom('path', '漢', 'q'), fc.oneof(words, fc.integer()), { maxKeys: 3 })
  .map(value => JSON.stringify(value))

/** Cuts a text into pieces at any UTF-16 units. */
function pieces(text: string, cuts: readonly number[]): string[] {
  const at = [...new Set(cuts.map(cut => cut % (text.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length)).filter(piece => piece !== '')
}

/**
 * Answers in the order in which models write: sealed reasoning, text, calls. `canForeign`: seals of other vendors may
 * occur.
 */
export function arbitraryAnswer(canForeign: boolean): fc.Arbitrary<AnswerEvent[]> {
  return fc
    .record({
      reasonings: fc.array(
        fc.oneof(
          fc.record({ text: words, seal: canForeign ? fc.oneof(anthropicSeal, foreignSeal) : anthropicSeal }),
          fc.record({ text: fc.constant(''), seal: redacted }),
        ),
        { maxLength: 2 },
      ),
      text: fc.option(words),
      calls: fc.array(fc.record({ name: fc.constantFrom('read', 'write'), args: toolArguments }), { maxLength: 3 }),
      ending: fc.constantFrom(
        'end' as const,
        'limit' as const,
        'refused' as const,
        'context_full' as const,
        'stop_sequence' as const,
      ),
      cuts: fc.array(fc.nat(60), { maxLength: 4 }),
      usage: fc.record({
        freshTokens: fc.integer({ min: 1, max: 9_999 }),
        cacheReadTokens: fc.nat(999),
        cacheWriteTokens: fc.nat(999),
        cacheWriteLongTokens: fc.nat(999),
        outputTokens: fc.integer({ min: 100, max: 9_999 }),
        reasoningTokens: fc.option(fc.nat(100)),
      }),
    })
    .map(({ reasonings, text, calls, ending, cuts, usage }): AnswerEvent[] => {
      const isToolUse = calls.length > 0 && (ending === 'end' || ending === 'stop_sequence')
      return [
        ...reasonings.flatMap(({ text: thought, seal }): AnswerEvent[] => [
          ...pieces(thought, cuts).map(piece => ({ kind: 'reasoning' as const, text: piece })),
          { kind: 'reasoning_seal', seal },
        ]),
        ...pieces(text ?? '', cuts).map(piece => ({ kind: 'text' as const, text: piece })),
        ...calls.flatMap(({ name, args }, index): AnswerEvent[] => [
          { kind: 'tool_start', id: `call_${index}`, name, toolKind: 'function' },
          ...pieces(args, cuts).map(piece => ({ kind: 'tool_arguments' as const, text: piece })),
          { kind: 'tool_end' },
        ]),
        {
          kind: 'finish',
          reason: isToolUse ? 'tools' : ending,
          ...(ending === 'stop_sequence' && !isToolUse && { stopSequence: 'END' }),
        },
        { kind: 'usage', usage },
      ]
    })
}

/** Joins neighbouring pieces of one part, so that answers compare equal however they were cut. */
export function joined(events: readonly AnswerEvent[]): AnswerEvent[] {
  const result: AnswerEvent[] = []
  for (const event of events) {
    const last = result.at(-1)
    if ('text' in event && last !== undefined && last.kind === event.kind && 'text' in last) {
      result[result.length - 1] = { ...last, text: last.text + event.text }
    } else result.push(event)
  }
  return result
}
