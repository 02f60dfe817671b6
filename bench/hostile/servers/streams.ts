import type { ServerBehaviour } from '../behaviour.ts'
import { flood } from '../flood.ts'
import { atLeast, chunk, DONE, event, finish, floods, frame, saysStream, server, streamHead, usage } from './answer.ts'

const few = { ratePerS: 10, inFlightMax: 8 }
const call = (index: number, more: object = {}) => ({
  tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name: 'f', arguments: '{}' }, ...more }],
})
const each = (count: number, text: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => text(at)).join('')
const fields = (count: number, from = 0) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`name-${from + at}`, at]))

/** Servers that send hostile events. */
export const streamBehaviours: readonly ServerBehaviour[] = [
  floods('empty-data-lines', 'events of 16,000 empty data lines', () => `${'data:\n'.repeat(16_000)}\n`),
  floods('big-events', 'events of 1 MB, again and again', () => chunk({ content: 'word '.repeat(200_000) })),
  floods('small-events', 'one letter in each event, as fast as possible', () => chunk({ content: 'a' })),
  floods('empty-deltas', 'empty deltas without end', () => chunk({})),
  floods('reasoning', 'reasoning without end', () => chunk({ reasoning_content: 'hm ' })),
  floods('comments', 'comments without end', () => ': ping\n\n'),
  floods('long-comments', 'comments of 100 kB', () => `: ${'x'.repeat(100_000)}\n\n`),
  floods('carriage-returns', 'carriage returns without end', () => '\r'),
  floods('line-feeds', 'line feeds without end', () => '\n'),
  floods('no-line-end', 'a line without end', () => 'x'),
  floods('event-names', 'event names of 10 kB', () => `event: ${'x'.repeat(10_000)}\ndata: {}\n\n`),
  floods('not-json-events', 'events that are not JSON', () => 'data: {{{{\n\n'),
  floods('empty-objects', 'events of {}', () => 'data: {}\n\n'),
  floods('usage-events', 'the usage in each event', () => event({ choices: [], usage })),
  floods(
    'usage-lies',
    'a usage that jumps',
    () =>
      event({ choices: [], usage: { ...usage, completion_tokens: 1e12 } }) +
      event({ choices: [], usage: { ...usage, completion_tokens: -1 } }),
  ),
  floods('many-delta-names', 'deltas of 500 different names', () => each(20, at => chunk(fields(500, at * 500)))),
  floods('wide-events', 'events of 60,000 numbers', () =>
    event({ choices: [], extra: Array.from({ length: 60_000 }, () => 1) }),
  ),
  floods('deep-events', 'events of 60 levels', () =>
    event({ choices: [], extra: JSON.parse('['.repeat(58) + ']'.repeat(58)) }),
  ),
  floods('unknown-fields', 'unknown fields of 1 kB in each delta', () =>
    chunk({ reasoning_details: ['x'.repeat(1_000)] }),
  ),
  floods('new-ids', 'a new id and model in each event', () =>
    each(500, at => chunk({ content: 'a' }).replace('chatcmpl-1', `chatcmpl-${at}`).replace('"m"', `"m${at}"`)),
  ),
  floods('choice-indexes', 'a new choice in each event', () =>
    each(2_000, at => event({ choices: [{ index: at, delta: { content: 'a' } }] })),
  ),
  floods('many-choices-event', 'events of 1,000 choices', () =>
    event({ choices: Array.from({ length: 1_000 }, (_, index) => ({ index, delta: { content: 'a' } })) }),
  ),
  floods('tool-calls', 'a new tool call in each event', () => each(2_000, at => chunk(call(at)))),
  floods('high-tool-calls', 'tool calls with indexes of 1e9', () => chunk(call(1e9))),
  floods('tool-arguments', 'arguments of a tool call without end', () =>
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] }),
  ),
  floods('tool-call-names', 'the name of a tool call without end', () =>
    chunk({ tool_calls: [{ index: 0, function: { name: 'f'.repeat(1_000) } }] }),
  ),
  floods('logprob-events', 'log probabilities that nobody asked for', () =>
    chunk(
      { content: 'a' },
      {
        logprobs: {
          content: Array.from({ length: 100 }, () => ({ token: 'a', logprob: -1, bytes: [97], top_logprobs: [] })),
        },
      },
    ),
  ),
  floods('content-objects', 'objects in place of text', () => chunk({ content: { text: { value: 'a' } } })),
  floods('content-part-events', 'text as parts', () => chunk({ content: [{ type: 'text', text: 'a' }] })),
  floods('think-tags', 'think tags without end', () => chunk({ content: '<think>' }) + chunk({ content: '</think>' })),
  floods('long-words', 'a word without end, 1 kB in each event', () => chunk({ content: 'a'.repeat(1_000) })),
  floods('cjk-events', '1 kB of Chinese characters in each event', () =>
    each(40, at => chunk({ content: String.fromCharCode(0x4e00 + at * 97).repeat(340) })),
  ),
  floods('ignores-max-tokens', 'text without end for max_tokens of 16', () => chunk({ content: 'word ' }), {
    ratePerS: 100,
    inFlightMax: 64,
    body: { max_tokens: 16 },
  }),
  floods('done-flood', '[DONE] without end', () => DONE),
  server(
    'after-done',
    'events without end after [DONE]',
    async ({ socket }) => {
      socket.write(Buffer.concat([streamHead, frame(chunk({ content: 'Hello' }) + finish)]))
      await flood(socket, frame(atLeast(65_536, chunk({ content: 'a' }))))
    },
    { load: { stream: true } },
  ),
  saysStream('no-finish-reason', 'no finish_reason and no [DONE]', () => chunk({ content: 'Hello' })),
  saysStream(
    'burst',
    'a stream of 20,000 events at once',
    () => each(20_000, () => chunk({ content: 'a' })) + finish,
    few,
  ),
  saysStream(
    'one-event',
    'an answer of 900 kB in one event',
    () => chunk({ content: 'word '.repeat(180_000) }) + finish,
    few,
  ),
  saysStream(
    'crlf-split',
    'lines that end in CR, LF and CRLF by turns',
    () => each(3_000, at => chunk({ content: 'a' }).replaceAll('\n', ['\r', '\n', '\r\n'][at % 3]!)) + finish,
    few,
  ),
]
