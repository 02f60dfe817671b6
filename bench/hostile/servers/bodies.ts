import type { ServerBehaviour } from '../behaviour.ts'
import { flood } from '../flood.ts'
import { completion, frame, jsonHead, saysWhole, server, usage } from './answer.ts'

const slow = { ratePerS: 10, inFlightMax: 8 }
const logprobs = (tokens: number) => ({
  content: Array.from({ length: tokens }, () => ({
    token: 'a',
    logprob: -1,
    bytes: [97],
    top_logprobs: [{ token: 'a', logprob: -1 }],
  })),
})
const call = (index: number, text: string) => ({
  index,
  id: `call_${index}`,
  type: 'function',
  function: { name: 'f', arguments: text },
})
const choices = (list: object[]) => completion({}, { choices: list })

/** Servers that send hostile JSON as a whole answer. */
export const bodyBehaviours: readonly ServerBehaviour[] = [
  server(
    'endless-body',
    'a text without end',
    async ({ socket }) => {
      socket.write(Buffer.concat([jsonHead, frame('{"choices":[{"index":0,"message":{"role":"assistant","content":"')]))
      await flood(socket, frame('x'.repeat(65_536)))
    },
    { load: { stream: false } },
  ),
  saysWhole('body-16-mb', 'an answer of 16 MB', () => completion({ content: 'word '.repeat(3_200_000) }), slow),
  saysWhole('long-token', 'a word of 1 MB', () => completion({ content: 'a'.repeat(1e6) }), slow),
  saysWhole(
    'long-cjk',
    'an answer of 1 MB in Chinese characters',
    () =>
      completion({
        content: Array.from({ length: 340_000 }, (_, at) => String.fromCharCode(0x4e00 + ((at * 7919) % 20_000))).join(
          '',
        ),
      }),
    slow,
  ),
  saysWhole('long-emoji', 'an answer of 1 MB of emoji', () => completion({ content: '👩‍👩‍👧‍👦'.repeat(40_000) }), slow),
  saysWhole(
    'control-characters',
    '1 MB of control characters, which JSON escapes',
    () => completion({ content: '\x01'.repeat(170_000) }),
    slow,
  ),
  saysWhole(
    'lone-surrogates',
    '100,000 lone surrogates',
    () => completion({ content: '\ud800'.repeat(100_000) }),
    slow,
  ),
  saysWhole('nul', 'a megabyte of NUL', () => '\0'.repeat(1e6), slow),
  saysWhole(
    'backslashes',
    'a megabyte of backslashes and quotes',
    () => completion({ content: '\\"'.repeat(250_000) }),
    slow,
  ),
  saysWhole('deep-json', '500,000 open brackets', () => '['.repeat(500_000), slow),
  saysWhole(
    'deep-content',
    'a text of 64 levels of arrays',
    () => completion({ content: JSON.parse('['.repeat(59) + ']'.repeat(59)) }),
    slow,
  ),
  saysWhole(
    'many-names',
    '60,000 different names',
    () => completion({}, { extra: Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`name-${at}`, 1])) }),
    slow,
  ),
  saysWhole(
    'many-names-in-message',
    '30,000 different names in the message',
    () => completion(Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`name-${at}`, 1]))),
    slow,
  ),
  saysWhole(
    'many-numbers',
    '130,000 numbers',
    () => completion({}, { extra: Array.from({ length: 130_000 }, (_, at) => at / 7) }),
    slow,
  ),
  saysWhole('many-commas', 'a megabyte of commas', () => `[${','.repeat(1e6)}]`, slow),
  saysWhole(
    'duplicate-names',
    'the same name 60,000 times',
    () => `{${'"choices":[],'.repeat(30_000)}"choices":[]}`,
    slow,
  ),
  saysWhole('proto', '__proto__ and constructor in every object', () =>
    completion({}).replaceAll('{', '{"__proto__":{"x":1},"constructor":{"prototype":{"y":1}},'),
  ),
  saysWhole('half-json', 'half of an answer as a complete body', () =>
    completion({ content: 'word '.repeat(10_000) }).slice(0, 30_000),
  ),
  saysWhole('null-choices', 'null in every place', () => '{"choices":[null],"usage":null,"id":null}'),
  saysWhole(
    'content-parts',
    'the text as 20,000 parts',
    () => completion({ content: Array.from({ length: 20_000 }, () => ({ type: 'text', text: 'a' })) }),
    slow,
  ),
  saysWhole(
    'many-choices',
    '15,000 choices',
    () =>
      choices(
        Array.from({ length: 15_000 }, (_, index) => ({ index, message: { content: 'a' }, finish_reason: 'stop' })),
      ),
    slow,
  ),
  saysWhole(
    'many-tool-calls',
    '10,000 tool calls',
    () => completion({ content: null, tool_calls: Array.from({ length: 10_000 }, (_, at) => call(at, '{}')) }),
    slow,
  ),
  saysWhole(
    'long-arguments',
    'a tool call with arguments of 1 MB',
    () => completion({ content: null, tool_calls: [call(0, '{"a":"'.repeat(150_000))] }),
    slow,
  ),
  saysWhole(
    'logprobs',
    '10,000 log probabilities that nobody asked for',
    () => choices([{ index: 0, message: { content: 'a' }, finish_reason: 'stop', logprobs: logprobs(10_000) }]),
    slow,
  ),
  saysWhole(
    'usage-huge',
    'a usage of 1e308 tokens',
    () => completion({}, { usage: { prompt_tokens: 1e308, completion_tokens: 1e308, total_tokens: 1e308 } }),
    { ratePerS: 100 },
  ),
  saysWhole(
    'usage-text',
    'a usage of texts and fractions',
    () => completion({}, { usage: { prompt_tokens: '5', completion_tokens: 1.5, total_tokens: null } }),
    { ratePerS: 100 },
  ),
  saysWhole(
    'usage-wide',
    'a usage with 50,000 fields',
    () =>
      completion(
        {},
        { usage: { ...usage, ...Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`u${at}`, at])) } },
      ),
    slow,
  ),
  saysWhole('nothing', 'an empty text that is reported as 1,000 tokens', () =>
    completion({ content: '' }, { usage: { prompt_tokens: 5, completion_tokens: 1_000, total_tokens: 1_005 } }),
  ),
  server(
    'invalid-utf8',
    'a megabyte of bytes that are not UTF-8',
    ({ socket }) => {
      const bytes = Buffer.concat([
        Buffer.from('{"choices":[{"index":0,"message":{"content":"'),
        Buffer.alloc(1e6, 0xff),
        Buffer.from('"}}]}'),
      ])
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n`)
      socket.write(bytes)
    },
    { load: { stream: false, ...slow } },
  ),
]
