import type { Dialect } from '../../../src/base/domain/conversation.ts'
import type { ServerBehaviour } from '../behaviour.ts'
import { floods, saysStream, saysWhole } from './answer.ts'

const few = { ratePerS: 10, inFlightMax: 8 }
const each = (count: number, text: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => text(at)).join('')
const list = <Item>(count: number, item: (at: number) => Item) => Array.from({ length: count }, (_, at) => item(at))
const named = (data: { type: string; [field: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const long = 'word '.repeat(180_000)

type Native = Exclude<Dialect, 'chat'>

/** Customers of these servers use chat, so that each answer is translated. */
export const dialectBehaviours: readonly ServerBehaviour[] = [
  ...speaking('messages', messages()),
  ...speaking('responses', responses()),
  ...speaking('gemini', gemini()),
]

function speaking(speaks: Native, behaviours: readonly ServerBehaviour[]): ServerBehaviour[] {
  return behaviours.map(behaviour => ({ ...behaviour, name: `${speaks}-${behaviour.name}`, speaks }))
}

function messages(): ServerBehaviour[] {
  const start = (index: number, content_block: object) => named({ type: 'content_block_start', index, content_block })
  const delta = (index: number, content: object) => named({ type: 'content_block_delta', index, delta: content })
  const stop = (index: number) => named({ type: 'content_block_stop', index })
  const text = (words: string, index = 0) => delta(index, { type: 'text_delta', text: words })
  const call = (index: number) => start(index, { type: 'tool_use', id: `c${index}`, name: 'f', input: {} })
  const json = (index: number, partial_json: string) => delta(index, { type: 'input_json_delta', partial_json })
  const end =
    named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { input_tokens: 5, output_tokens: 5 } }) +
    named({ type: 'message_stop' })
  const message = (content: object[]) =>
    JSON.stringify({ type: 'message', content, stop_reason: 'end_turn', usage: { input_tokens: 5, output_tokens: 5 } })
  return [
    floods('texts', 'one letter in each event, as fast as possible', () => text('a')),
    floods('pings', 'pings without end', () => named({ type: 'ping' })),
    floods('empty-texts', 'empty texts without end', () => text('')),
    floods('blocks', 'a new block of text in each event', () =>
      each(2_000, at => start(at, { type: 'text', text: '' })),
    ),
    floods('indexes', 'each letter at another index', () => each(2_000, at => text('a', 2_000 - at))),
    floods('calls', 'a new tool call in each event', () => each(2_000, at => call(at) + json(at, '{}') + stop(at))),
    floods(
      'open-calls',
      'pieces of 100 tool calls by turns',
      () => each(100, call) + each(50, () => each(100, at => json(99 - at, '{"a":'))),
    ),
    floods('held-back', 'text without end behind an open tool call', () => call(0) + each(500, () => text('word '))),
    floods('held-back-long', 'texts of 100 kB behind an open tool call', () => call(0) + text('word '.repeat(20_000))),
    floods(
      'held-back-arguments',
      'arguments of 100 kB for the second of two open calls',
      () => call(0) + call(1) + json(1, 'x'.repeat(100_000)),
    ),
    floods('thinking', 'thinking without end', () => delta(0, { type: 'thinking_delta', thinking: 'hm ' })),
    floods('signatures', 'signatures of 10 kB', () =>
      delta(0, { type: 'signature_delta', signature: 'x'.repeat(10_000) }),
    ),
    floods('usage', 'a usage in each event', () =>
      named({ type: 'message_delta', delta: {}, usage: { output_tokens: 1e12 } }),
    ),
    saysStream('one-event', 'an answer of 900 kB in one event', () => text(long) + end, few),
    saysStream('burst', 'a stream of 20,000 events at once', () => each(20_000, () => text('a')) + end, few),
    saysWhole('body-blocks', '3,000 blocks', () => message(list(3_000, () => ({ type: 'text', text: 'a' }))), few),
    saysWhole(
      'body-calls',
      '2,500 tool calls',
      () => message(list(2_500, at => ({ type: 'tool_use', id: `c${at}`, name: 'f', input: {} }))),
      few,
    ),
    saysWhole('body-long', 'an answer of 900 kB', () => message([{ type: 'text', text: long }]), few),
  ]
}

function responses(): ServerBehaviour[] {
  const added = (output_index: number, item: object) =>
    named({ type: 'response.output_item.added', ...{ output_index, item } })
  const done = (output_index: number, item: object) =>
    named({ type: 'response.output_item.done', ...{ output_index, item } })
  const text = (delta: string, output_index = 0) =>
    named({ type: 'response.output_text.delta', ...{ output_index, content_index: 0, delta } })
  const message = { type: 'message', content: [{ type: 'output_text', text: 'a' }] }
  const call = (at: number) => ({ type: 'function_call', call_id: `c${at}`, name: 'f', arguments: '{}' })
  const usage = { input_tokens: 5, output_tokens: 5, total_tokens: 10 }
  const response = (output: object[]) => ({ object: 'response', status: 'completed', output, usage })
  const end = (output: object[] = []) => named({ type: 'response.completed', response: response(output) })
  return [
    floods('texts', 'one letter in each event, as fast as possible', () => text('a')),
    floods('empty-texts', 'empty texts without end', () => text('')),
    floods('items', 'a new item in each event', () => each(2_000, at => added(at, { type: 'message' }))),
    floods('calls', 'a new tool call in each event', () => each(2_000, at => added(at, call(at)) + done(at, call(at)))),
    floods('indexes', 'each letter at another index', () => each(2_000, at => text('a', at))),
    floods('high-indexes', 'indexes of 1e15', () => each(2_000, at => text('a', 1e15 - at))),
    floods(
      'held-back',
      'text without end for an item that waits',
      () => added(0, call(0)) + each(500, () => text('word ', 1)),
    ),
    floods(
      'held-back-long',
      'texts of 100 kB for an item that waits',
      () => added(0, call(0)) + text('word '.repeat(20_000), 1),
    ),
    floods('unknown-events', 'events of an unknown type', () => named({ type: 'response.new', delta: 'a' })),
    saysStream(
      'items-in-reverse',
      '4,000 items that end in order after the last began',
      () => each(4_000, at => added(at, message)) + each(4_000, at => done(at, message)) + end(),
      few,
    ),
    saysStream(
      'items-at-the-end',
      '4,000 items that only the last event ends',
      () => each(4_000, at => added(at, message)) + end(list(2_000, () => message)),
      few,
    ),
    saysStream('one-event', 'an answer of 900 kB in one event', () => added(0, message) + text(long) + end(), few),
    saysStream('burst', 'a stream of 20,000 events at once', () => each(20_000, () => text('a')) + end(), few),
    saysWhole('body-items', '2,000 items', () => JSON.stringify(response(list(2_000, () => message))), few),
    saysWhole('body-calls', '3,000 tool calls', () => JSON.stringify(response(list(3_000, call))), few),
  ]
}

function gemini(): ServerBehaviour[] {
  const answer = (parts: object[], more: object = {}) =>
    JSON.stringify({
      candidates: [{ content: { parts, role: 'model' }, ...more }],
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 5, totalTokenCount: 10 },
    })
  const event = (parts: object[], more: object = {}) => `data: ${answer(parts, more)}\n\n`
  const end = { finishReason: 'STOP' }
  const call = { functionCall: { name: 'f', args: {} } }
  return [
    floods('texts', 'one letter in each event, as fast as possible', () => event([{ text: 'a' }])),
    floods('parts', 'events of 3,000 parts', () => event(list(3_000, () => ({ text: 'a' })))),
    floods('calls', 'events of 1,000 tool calls', () => event(list(1_000, () => call))),
    floods('no-candidates', 'a usage in each event, and nothing else', () => event([])),
    floods('signatures', 'signatures of 10 kB', () => event([{ text: '', thoughtSignature: 'x'.repeat(10_000) }])),
    saysStream('one-event', 'an answer of 900 kB in one event', () => event([{ text: long }], end), few),
    saysStream('burst', 'a stream of 20,000 events at once', () => each(20_000, () => event([{ text: 'a' }])), few),
    saysWhole(
      'body-parts',
      '8,000 parts',
      () =>
        answer(
          list(8_000, () => ({ text: 'a' })),
          end,
        ),
      few,
    ),
    saysWhole(
      'body-calls',
      '4,000 tool calls',
      () =>
        answer(
          list(4_000, () => call),
          end,
        ),
      few,
    ),
  ]
}
