import type { EventField } from '../event-pattern.ts'

const TEXT_DELTA = 'response.output_text.delta'

/** OpenAI pads each delta with random letters, so that its length does not show the length of the text. */
export const textFields: readonly EventField[] = [
  { key: '"delta":', kind: 'text', valueIn: ({ type, delta }) => (type === TEXT_DELTA ? delta : undefined) },
  { key: '"sequence_number":', kind: 'count', valueIn: event => event.sequence_number },
  { key: '"obfuscation":', kind: 'padding', valueIn: event => event.obfuscation },
]

/** What the deltas of a stream add to, by their type. */
export const deltaKinds: ReadonlyMap<unknown, 'text' | 'refusal' | 'reasoning' | 'tool_arguments'> = new Map([
  [TEXT_DELTA, 'text'],
  ['response.refusal.delta', 'refusal'],
  ['response.reasoning_summary_text.delta', 'reasoning'],
  ['response.reasoning_text.delta', 'reasoning'],
  ['response.function_call_arguments.delta', 'tool_arguments'],
  ['response.custom_tool_call_input.delta', 'tool_arguments'],
] as const)

/** Whether an event of this type has the whole response, and is the last one. */
export function isEnd(type: unknown): type is string {
  return type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed'
}

/** Whether an item of this type is a call of a tool. */
export function isCall(type: unknown): boolean {
  return type === 'function_call' || type === 'custom_tool_call'
}
