import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestApp, type TestApp, testOffer, type UsageRow } from '../harness/app.ts'
import { type EventStream, parseEventStream } from '../harness/event-stream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/patience.ts'
import {
  answer,
  type Behaviour,
  bytewise,
  chunk,
  closeAfter,
  completion,
  contentChunk,
  hangUp,
  html200,
  neverEnding,
  rawResponse,
  type ScriptedUpstream,
  sse,
  sseBytes,
  stall,
  startScriptedUpstream,
  status,
  streamBytes,
  streamEvents,
  usageChunk,
  usageOf,
} from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  // A model for each case, so that no case suffers from the breaker that an earlier one tripped.
  const offers = cases.map(({ limits }, index) =>
    testOffer(upstream.baseUrl, {
      modelId: `model-${index}`,
      endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, ...limits }, ...endpointOf(index) },
    }),
  )
  gateway = await startTestApp({ offers, yaml: 'server: { ping_seconds: 60 }' })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

function endpointOf(index: number) {
  const common = { endpointId: `endpoint-${index}` }
  return cases[index]!.hoster
    ? {
        ...common,
        kind: 'hoster' as const,
        hosterId: '0192d0c0-0000-7000-8000-000000000000',
        hosterShareBps: 8_000,
        trustScore: 1,
      }
    : common
}

interface Case {
  readonly name: string
  readonly behaviour: Behaviour
  /** The answer is no stream. */
  readonly whole?: boolean
  readonly hoster?: boolean
  readonly maxTokens?: number
  /** Of those that fall silent or never end: what makes an end of it. */
  readonly limits?: Partial<typeof GENEROUS_TIMEOUTS>
  /** What the customer gets: the text of a complete answer, an error chunk after that text, or a status. */
  readonly gets: { text: string; finish?: string } | { text: string; error: string } | { status: number; code: string }
  /** Input and output tokens that are paid; nothing unless given. Prices are 1,000 and 2,000 nano-USD. */
  readonly pays?: readonly [input: number, output: number]
  readonly source?: 'upstream' | 'gateway'
  readonly check?: (facts: { stream: EventStream; row: UsageRow; body: string }) => void
}

/** The prompt is "Hello": one token, three for the message, three for the request. */
const ours = 7
const role = chunk({ role: 'assistant', content: '' })
const one = contentChunk('one')
const two = contentChunk(' two')
const stop = chunk({}, 'stop')
const usage = (input: number, output: number) => usageChunk(usageOf(input, output))
const served = { text: 'one two', finish: 'stop' }
const failed = { status: 500, code: 'all_hosters_failed' }
const interrupted = { text: 'one two', error: 'stream_interrupted' }
const tool = (fields: object) => ({ choices: [{ index: 0, delta: { tool_calls: [fields] }, finish_reason: null }] })
const toolCallsOf = ({ stream }: { stream: EventStream }) =>
  stream.chunks.flatMap(each => each.choices.flatMap(({ delta }) => delta.tool_calls ?? []))

const cases: Case[] = [
  // What is reported.
  {
    name: 'no usage: our own count',
    behaviour: sse([role, one, two, stop, '[DONE]']),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
  },
  {
    name: 'usage of zeros is none',
    behaviour: sse([role, one, two, stop, usage(0, 0), '[DONE]']),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
  },
  {
    name: 'usage of nonsense is none',
    behaviour: sse([
      role,
      one,
      two,
      stop,
      { choices: [], usage: { prompt_tokens: -5, completion_tokens: 1.5 } },
      '[DONE]',
    ]),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
  },
  {
    name: 'usage as text is none',
    behaviour: sse([
      role,
      one,
      two,
      stop,
      { choices: [], usage: { prompt_tokens: '9', completion_tokens: '9' } },
      '[DONE]',
    ]),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
  },
  {
    name: 'usage twice is paid once',
    behaviour: sse([role, one, two, stop, usage(9, 2), usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'cumulative usage on every chunk: the last counts',
    behaviour: sse([
      role,
      { ...one, usage: usageOf(9, 1) },
      { ...two, usage: usageOf(9, 2) },
      { ...stop, usage: usageOf(9, 3) },
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 3],
    source: 'upstream',
  },
  {
    name: 'zeros after a report do not undo it',
    behaviour: sse([role, one, two, { ...stop, usage: usageOf(9, 2) }, usage(0, 0), '[DONE]']),
    gets: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'thinking is in the total of its usage alone',
    behaviour: sse([role, one, two, { ...stop, usage: { ...usageOf(9, 2), total_tokens: 50 } }, '[DONE]']),
    gets: served,
    pays: [9, 41],
  },
  {
    name: 'usage on the finish chunk',
    behaviour: sse([role, one, two, { ...stop, usage: usageOf(8, 2) }, '[DONE]']),
    gets: served,
    pays: [8, 2],
  },
  {
    name: 'more input than the prompt can have is cut to its bound',
    behaviour: sse([role, one, two, stop, usage(1_000_000, 2), '[DONE]']),
    gets: served,
    pays: [85, 2],
  },
  {
    name: 'more output than max_tokens is cut to it',
    behaviour: sse([role, one, two, stop, usage(9, 5_000), '[DONE]']),
    maxTokens: 20,
    gets: served,
    pays: [9, 20],
  },
  {
    name: 'a hoster within 5 % and 8 tokens is believed',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(ours + 8, 2 + 8), '[DONE]']),
    gets: served,
    pays: [ours + 8, 10],
    source: 'upstream',
  },
  {
    name: 'a hoster above that is paid by our count',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(ours + 9, 2 + 9), '[DONE]']),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
    check: ({ row }) =>
      expect(row).toMatchObject({
        hoster_share_nanos: (row.cost_nanos * 8n) / 10n,
        fee_nanos: row.cost_nanos - (row.cost_nanos * 8n) / 10n,
      }),
  },
  {
    name: 'a hoster that reports less than it sent is taken at its word',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(3, 1), '[DONE]']),
    gets: served,
    pays: [3, 1],
    source: 'upstream',
  },
  {
    name: 'a whole answer without usage: our own count',
    whole: true,
    behaviour: status(200, completion({ text: 'one two', usage: null })),
    gets: served,
    pays: [ours, 2],
    source: 'gateway',
  },

  // How it ends.
  {
    name: 'no [DONE] after a finish_reason',
    behaviour: sse([role, one, two, stop, usage(9, 2)]),
    gets: served,
    pays: [9, 2],
  },
  {
    name: '[DONE] without a finish_reason',
    behaviour: sse([role, one, two, usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'hung up after the finish_reason',
    behaviour: sse([role, one, two, stop], { ending: 'close' }),
    gets: served,
    pays: [ours, 2],
  },
  {
    name: 'silent after the finish_reason',
    behaviour: sse([role, one, two, stop], { ending: 'stall' }),
    limits: { idleMs: 500 },
    gets: served,
    pays: [ours, 2],
  },
  {
    name: 'silent after [DONE]',
    behaviour: sse([role, one, two, stop, usage(9, 2), '[DONE]'], { ending: 'stall' }),
    gets: served,
    pays: [9, 2],
  },
  { name: 'reset in the middle', behaviour: sse([role, one, two], { ending: 'reset' }), gets: interrupted },
  { name: 'ended in the middle', behaviour: sse([role, one, two]), gets: interrupted },
  {
    name: 'silent in the middle',
    behaviour: sse([role, one, two], { ending: 'stall' }),
    limits: { idleMs: 500 },
    gets: interrupted,
  },
  {
    name: 'usage does not make half an answer whole',
    behaviour: sse([role, one, two, usage(9, 2)]),
    gets: interrupted,
  },
  {
    name: 'never ends',
    behaviour: neverEnding({ everyMs: 20 }),
    limits: { totalMs: 1_000 },
    gets: { text: 'more', error: 'stream_interrupted' },
  },
  {
    name: 'ignores max_tokens: cut as length, paid up to it',
    maxTokens: 10,
    behaviour: neverEnding({ piece: 'more ', everyMs: 0 }),
    gets: { text: 'more', finish: 'length' },
    pays: [ours, 10],
    check: ({ stream }) => expect(stream.text.length).toBeLessThan(1_000),
  },
  {
    name: 'ignores max_tokens in one huge delta',
    maxTokens: 10,
    behaviour: sse([role, contentChunk('more '.repeat(5_000)), contentChunk('and more'), stop, '[DONE]']),
    gets: { text: 'more', finish: 'length' },
    pays: [ours, 10],
  },
  {
    name: 'ignores max_tokens in a chunk that has a finish of its own',
    maxTokens: 10,
    behaviour: sse([
      role,
      { choices: [{ index: 0, delta: { content: 'more '.repeat(500) }, finish_reason: 'stop' }] },
      '[DONE]',
    ]),
    gets: { text: 'more', finish: 'length' },
    pays: [ours, 10],
    check: ({ stream }) => expect(stream.finishReasons).toEqual(['length']),
  },
  {
    name: 'ignores max_tokens in a whole answer',
    whole: true,
    maxTokens: 10,
    behaviour: status(200, completion({ text: 'more '.repeat(500), usage: usageOf(9, 500) })),
    gets: { text: 'more', finish: 'stop' },
    pays: [9, 10],
  },

  // Before anything was said.
  { name: 'hangs up without a byte', behaviour: hangUp(), gets: failed },
  {
    name: 'nests the arguments of a tool call so deep that nobody can write them',
    behaviour: rawResponse(
      `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":${'{"0":'.repeat(20_000)}1${'}'.repeat(20_000)}}}]}}]}\n\n`,
      { framing: 'chunked' },
    ),
    gets: failed,
  },
  { name: 'resets without a byte', behaviour: hangUp('reset'), gets: failed },
  { name: 'never answers', behaviour: stall(), limits: { firstTokenMs: 300 }, gets: failed },
  {
    name: 'never answers a request that is no stream',
    whole: true,
    behaviour: stall(),
    limits: { totalMs: 500 },
    gets: failed,
  },
  { name: 'nothing after the headers', behaviour: stall('headers'), limits: { firstTokenMs: 300 }, gets: failed },
  {
    name: 'only the role, then silence',
    behaviour: sse([role], { ending: 'stall' }),
    limits: { firstTokenMs: 300 },
    gets: failed,
  },
  { name: 'an empty body', behaviour: sse([]), gets: failed },
  { name: 'only comments', behaviour: rawResponse(': hi\n\n: hi\n\n', { framing: 'chunked' }), gets: failed },
  { name: 'only [DONE]', behaviour: sse(['[DONE]']), gets: failed },
  { name: 'no output, usage all the same', behaviour: sse([role, stop, usage(9, 7), '[DONE]']), gets: failed },
  {
    name: 'no output in a whole answer',
    whole: true,
    behaviour: status(200, completion({ text: '', usage: usageOf(9, 7) })),
    gets: failed,
  },
  { name: 'no choices', whole: true, behaviour: status(200, { id: 'x', choices: [] }), gets: failed },
  { name: 'null', whole: true, behaviour: status(200, 'null', { 'content-type': 'application/json' }), gets: failed },
  {
    name: 'half a whole answer',
    whole: true,
    behaviour: rawResponse(JSON.stringify(completion()).slice(0, 80), {
      framing: 'length',
      contentLength: 500,
      headers: { 'content-type': 'application/json' },
    }),
    gets: failed,
  },
  {
    name: 'refused by a filter: an answer without text',
    behaviour: sse([role, chunk({}, 'content_filter'), usage(9, 0), '[DONE]']),
    gets: { text: '', finish: 'content_filter' },
  },

  // What is no answer.
  { name: 'HTML with status 200', behaviour: html200(), gets: failed },
  { name: 'HTML with status 200, no stream', whole: true, behaviour: html200(), gets: failed },
  {
    name: 'HTML that claims to be events',
    behaviour: rawResponse('<html><body>Sign in</body></html>\n\n', { framing: 'chunked' }),
    gets: failed,
  },
  {
    name: '200 with an error object',
    whole: true,
    behaviour: status(200, { error: { message: 'no memory', type: 'server_error' } }),
    gets: failed,
  },
  {
    name: '200 with an error object for a stream',
    behaviour: status(200, { error: { message: 'no memory', type: 'server_error' } }),
    gets: failed,
  },
  { name: '200 with an error text', whole: true, behaviour: status(200, { error: 'no memory' }), gets: failed },
  {
    name: '200 that refuses the request',
    whole: true,
    behaviour: status(200, { error: { message: 'bad top_p', type: 'invalid_request_error', param: 'top_p' } }),
    gets: { status: 400, code: 'upstream_rejected' },
  },
  { name: '204', behaviour: status(204), gets: failed },
  { name: '302', behaviour: status(302, '', { location: 'http://127.0.0.1:1/v1/chat/completions' }), gets: failed },
  { name: '418', behaviour: status(418, 'teapot'), gets: failed },
  {
    name: 'gzip that nobody asked for',
    behaviour: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
      response.end(gzipSync(streamBytes()))
    },
    gets: failed,
  },
  {
    name: 'a whole answer where a stream was asked for',
    behaviour: status(200, completion({ text: 'one two', usage: usageOf(9, 2) })),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'chunked garbage',
    behaviour: rawResponse(
      'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\ngarbage\r\n',
    ),
    gets: failed,
  },
  { name: 'no HTTP at all', behaviour: rawResponse('\u0000\u0001\u0002 hello'), gets: failed },
  {
    name: 'headers that never end',
    behaviour: rawResponse(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}`),
    gets: failed,
  },
  {
    name: 'less than its content-length says',
    behaviour: rawResponse(sseBytes([role, one, two]), { framing: 'length', contentLength: 10_000 }),
    gets: interrupted,
  },
  {
    name: 'more than its content-length says',
    behaviour: rawResponse(streamBytes({ text: 'one two' }), {
      framing: 'length',
      contentLength: sseBytes([role, one, two]).length,
    }),
    gets: interrupted,
  },
  {
    name: 'a huge line',
    behaviour: rawResponse(`data: {"choices":[{"delta":{"content":"${'x'.repeat(17_000_000)}"}}]}\n\n`, {
      framing: 'chunked',
    }),
    gets: failed,
  },
  {
    name: 'a huge line after content',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from(`data: ${'x'.repeat(17_000_000)}`)]),
      {
        framing: 'chunked',
      },
    ),
    gets: interrupted,
  },
  { name: 'broken JSON before content', behaviour: sse([role, '{"choices":[']), gets: failed },
  { name: 'broken JSON after content', behaviour: sse([role, one, two, '{"choices":[']), gets: interrupted },
  { name: 'an event that is an array', behaviour: sse([role, one, two, '[1]', stop]), gets: interrupted },

  // Errors inside a stream.
  {
    name: 'an error before content',
    behaviour: sse([role, { error: { message: 'no memory', code: 500 } }]),
    gets: failed,
  },
  {
    name: 'an error after content',
    behaviour: sse([role, one, two, { error: { message: 'no memory', code: 'x' } }]),
    gets: interrupted,
  },
  {
    name: 'an error event before content',
    behaviour: rawResponse('event: error\ndata: {"message":"no memory"}\n\n', { framing: 'chunked' }),
    gets: failed,
  },
  {
    name: 'an error event after content',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from('event: error\ndata: {"message":"no memory"}\n\n')]),
      { framing: 'chunked' },
    ),
    gets: interrupted,
  },
  {
    name: 'an error field after content (old llama.cpp)',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from('error: {"code":500,"message":"x"}\n\n')]),
      { framing: 'chunked' },
    ),
    gets: interrupted,
  },
  {
    name: 'an error after the finish_reason comes too late',
    behaviour: sse([role, one, two, stop, { error: { message: 'x' } }]),
    gets: served,
    pays: [ours, 2],
  },
  {
    name: 'an error with a numeric code, no stream',
    whole: true,
    behaviour: status(503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }),
    gets: failed,
  },

  // Odd but good.
  {
    name: 'one byte per write',
    behaviour: rawResponse(bytewise(streamBytes({ text: 'one two', usage: usageOf(9, 2) })), { framing: 'chunked' }),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'split UTF-8',
    behaviour: rawResponse(bytewise(sseBytes([role, contentChunk('zwölf 🦩'), stop, usage(9, 4), '[DONE]'])), {
      framing: 'close',
    }),
    gets: { text: 'zwölf 🦩', finish: 'stop' },
    pays: [9, 4],
  },
  {
    name: 'CRLF',
    behaviour: sse(streamEvents({ text: 'one two', usage: usageOf(9, 2) }), { eol: '\r\n' }),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'CR alone',
    behaviour: sse(streamEvents({ text: 'one two', usage: usageOf(9, 2) }), { eol: '\r' }),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'a byte order mark',
    behaviour: rawResponse(
      Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), streamBytes({ text: 'one two', usage: usageOf(9, 2) })]),
      { framing: 'chunked' },
    ),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'comments, ids and retries in between',
    behaviour: rawResponse(
      `: hello\nid: 1\nretry: 5\n${streamBytes({ text: 'one two', usage: usageOf(9, 2) })
        .toString()
        .replaceAll('\n\n', '\n\n: x\n\n')}`,
      { framing: 'chunked' },
    ),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'no blank after data:',
    behaviour: rawResponse(
      streamBytes({ text: 'one two', usage: usageOf(9, 2) })
        .toString()
        .replaceAll('data: ', 'data:'),
      { framing: 'chunked' },
    ),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'another content type',
    behaviour: rawResponse(streamBytes({ text: 'one two', usage: usageOf(9, 2) }), {
      framing: 'chunked',
      headers: { 'content-type': 'text/plain' },
    }),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'null deltas',
    behaviour: sse([
      {
        choices: [{ index: 0, delta: { role: null, content: null, tool_calls: null }, finish_reason: null }],
        usage: null,
      },
      one,
      { choices: [{ index: 0, delta: null }] },
      two,
      { choices: [{ index: 0, delta: { content: null }, finish_reason: '' }] },
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'no role in any chunk',
    behaviour: sse([one, two, stop, usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
    check: ({ stream }) => expect(stream.chunks[0]!.choices[0]!.delta.role).toBe('assistant'),
  },
  {
    name: 'the role in every chunk',
    behaviour: sse([
      role,
      chunk({ role: 'assistant', content: 'one' }),
      chunk({ role: 'assistant', content: ' two' }),
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
    check: ({ stream }) => expect(stream.chunks.filter(each => each.choices[0]?.delta.role).length).toBe(1),
  },
  {
    name: 'an empty first chunk with filter results',
    behaviour: sse([{ choices: [], prompt_filter_results: [] }, role, one, two, stop, usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'no index, id, created or model',
    behaviour: sse([
      { choices: [{ delta: { content: 'one' } }] },
      { choices: [{ delta: { content: ' two' } }] },
      { choices: [{ delta: {}, finish_reason: 'stop' }] },
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'content as parts',
    behaviour: sse([
      role,
      { choices: [{ index: 0, delta: { content: [{ type: 'text', text: 'one two' }] } }] },
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'several finish reasons: the first counts',
    behaviour: sse([role, one, two, stop, chunk({}, 'length'), stop, usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'content after the finish, which is said too early',
    behaviour: sse([role, one, two, stop, contentChunk(' three'), '[DONE]']),
    gets: { text: 'one two three', finish: 'stop' },
    pays: [ours, 3],
  },
  {
    name: 'a finish reason in every chunk',
    behaviour: sse([chunk({ content: 'one' }, 'stop'), chunk({ content: ' two' }, 'stop'), usage(9, 2), '[DONE]']),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'hung up in the middle, with a finish reason in every chunk',
    behaviour: sse([chunk({ content: 'one' }, 'stop'), chunk({ content: ' two' }, 'stop')], { ending: 'close' }),
    gets: { text: 'one two', error: 'stream_interrupted' },
  },
  {
    name: 'an answer that its server aborted',
    behaviour: sse([
      role,
      one,
      two,
      { choices: [{ index: 0, delta: {}, finish_reason: 'abort' }] },
      usage(9, 2),
      '[DONE]',
    ]),
    gets: { text: 'one two', error: 'stream_interrupted' },
  },
  {
    name: 'an unknown finish reason is a stop',
    behaviour: sse([
      role,
      one,
      two,
      { choices: [{ index: 0, delta: {}, finish_reason: 'eos_token' }] },
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'events after [DONE]',
    behaviour: sse([role, one, two, stop, usage(9, 2), '[DONE]', contentChunk('late'), '[DONE]']),
    gets: served,
    pays: [9, 2],
  },
  {
    name: 'NUL in the text',
    behaviour: sse([role, contentChunk('one\u0000 two'), stop, usage(9, 2), '[DONE]']),
    gets: { text: 'one\u0000 two', finish: 'stop' },
    pays: [9, 2],
  },
  {
    name: 'NUL between events',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one]), Buffer.from('\u0000\n\n'), sseBytes([two, stop, '[DONE]'])]),
      { framing: 'chunked' },
    ),
    gets: served,
    pays: [ours, 2],
  },
  {
    name: 'forged ids and models',
    behaviour: sse([
      chunk({ content: 'one' }, null, { id: 'chatcmpl-somebody', model: 'gpt-9' }),
      chunk({ content: ' two' }, null, { id: 'other', model: 'other' }),
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
    check: ({ body }) => expect(body).not.toMatch(/somebody|gpt-9|other/),
  },
  {
    name: 'prototype keys',
    behaviour: sse([
      role,
      '{"__proto__":{"polluted":1},"choices":[{"index":0,"delta":{"content":"one two","__proto__":{"polluted":1}}}]}',
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    gets: served,
    pays: [9, 2],
    check: ({ body }) => {
      expect(body).not.toContain('polluted')
      expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    },
  },
  {
    name: 'headers of its own are not passed',
    behaviour: answer({
      text: 'one two',
      usage: usageOf(9, 2),
      headers: { 'set-cookie': 'a=b', 'x-request-id': 'theirs', 'strict-transport-security': 'max-age=1', link: '<x>' },
    }),
    gets: served,
    pays: [9, 2],
  },

  // Tool calls.
  {
    name: 'a tool call without index',
    behaviour: sse([
      role,
      tool({ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":' } }),
      tool({ function: { arguments: '1}' } }),
      chunk({}, 'tool_calls'),
      usage(9, 5),
      '[DONE]',
    ]),
    gets: { text: '', finish: 'tool_calls' },
    pays: [9, 5],
    check: facts => {
      expect(toolCallsOf(facts).map(call => call.index)).toEqual([0, 0])
      expect(
        toolCallsOf(facts)
          .map(call => call.function?.arguments)
          .join(''),
      ).toBe('{"a":1}')
    },
  },
  {
    name: 'a tool call without id',
    behaviour: sse([
      role,
      tool({ index: 0, function: { name: 'f', arguments: '{}' } }),
      chunk({}, 'tool_calls'),
      usage(9, 5),
      '[DONE]',
    ]),
    gets: { text: '', finish: 'tool_calls' },
    pays: [9, 5],
    check: facts =>
      expect(toolCallsOf(facts)[0]).toMatchObject({ index: 0, id: expect.stringMatching(/^call_/), type: 'function' }),
  },
  {
    name: 'tool calls that end with stop',
    behaviour: sse([
      role,
      tool({ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }),
      stop,
      usage(9, 5),
      '[DONE]',
    ]),
    gets: { text: '', finish: 'tool_calls' },
    pays: [9, 5],
  },
  {
    name: 'tool arguments as an object',
    behaviour: sse([
      role,
      tool({ index: 0, id: 'c', function: { name: 'f', arguments: { a: 1 } } }),
      chunk({}, 'tool_calls'),
      usage(9, 5),
      '[DONE]',
    ]),
    gets: { text: '', finish: 'tool_calls' },
    pays: [9, 5],
    check: facts =>
      expect(
        toolCallsOf(facts)
          .map(call => call.function?.arguments ?? '')
          .join(''),
      ).toBe('{"a":1}'),
  },
  {
    name: 'a stream cut inside a tool call',
    behaviour: sse([role, tool({ index: 0, id: 'c', function: { name: 'f', arguments: '{"a":' } })]),
    gets: { text: '', error: 'stream_interrupted' },
  },
]

describe('the customer gets', () => {
  test.each(cases.map((each, index) => ({ ...each, index })))('$name', async ({ index, ...expected }) => {
    const customer = await gateway.customer()
    const model = `model-${index}`
    // Twice: a kept connection that hangs up without a byte is tried once more on a new one.
    const again = upstream.requests.length
    upstream.always(expected.behaviour)
    const response = await gateway.chat(customer, {
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      ...(expected.whole ? {} : { stream: true }),
      ...(expected.maxTokens === undefined ? {} : { max_tokens: expected.maxTokens }),
    })
    const body = await response.text()
    expect(upstream.requests.length - again).toBeLessThanOrEqual(2)
    for (const name of ['set-cookie', 'strict-transport-security', 'link'])
      expect(response.headers.get(name)).toBeNull()

    const [row] = await gateway.usage(customer)
    const [input, output] = expected.pays ?? [0, 0]
    expect(row).toMatchObject({
      input_tokens: input,
      output_tokens: output,
      cost_nanos: BigInt(input) * 1_000n + BigInt(output) * 2_000n,
      writeoff_nanos: 0n,
    })
    if (expected.source) expect(row!.usage_source).toBe(expected.source)
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - row!.cost_nanos)

    const { gets } = expected
    if ('status' in gets) {
      expect(response.status).toBe(gets.status)
      expect(JSON.parse(body).error).toMatchObject({ code: gets.code })
      expect(body).not.toMatch(/no memory|127\.0\.0\.1/)
      return
    }
    expect(response.status).toBe(200)
    if (expected.whole) {
      const [choice] = JSON.parse(body).choices
      expect(choice.message.content.slice(0, gets.text.length)).toBe(gets.text)
      return
    }
    const stream = parseEventStream(body)
    if (gets.text === served.text) expect(stream.text).toBe(gets.text)
    else expect(stream.text.startsWith(gets.text)).toBe(true)
    expect(stream.chunks.filter(each => each.choices[0]?.delta.role === 'assistant').length).toBe(1)
    if ('error' in gets) {
      expect(stream).toMatchObject({ done: false, error: { type: 'upstream_error', code: gets.error } })
      expect(row).toMatchObject({ success: false, outcome: 'interrupted' })
    } else {
      expect(stream).toMatchObject({ done: true, error: null, finishReasons: [gets.finish] })
      expect(row).toMatchObject({ success: true, outcome: 'served', finish_reason: gets.finish })
    }
    expected.check?.({ stream, row: row!, body })
  })
})

test('a stream of 200 bytes cut after each of them: paid if the answer was complete, otherwise free and never [DONE]', async () => {
  const events = [{ choices: [{ delta: { content: 'Hi' } }] }, { choices: [{ delta: {}, finish_reason: 'stop' }] }]
  const usage = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } }
  const stream = sseBytes([...events, usage, '[DONE]'])
  const body = Buffer.concat([Buffer.from(`:${'-'.repeat(198 - stream.length)}\n`), stream])
  expect(body.length).toBe(200)
  // From here the finish_reason has been read: its event ends with the first of two line ends at the latest when the stream does.
  const finished = body.indexOf('"finish_reason":"stop"}]}') + '"finish_reason":"stop"}]}'.length
  const said = body.indexOf('"Hi"}}]}') + '"Hi"}}]}'.length
  const reported = body.indexOf(JSON.stringify(usage)) + JSON.stringify(usage).length

  const bySize = Array.from({ length: 201 }, (_, bytes) => bytes)
  const offers = bySize.map(bytes =>
    testOffer(upstream.baseUrl, {
      modelId: `cut-${bytes}`,
      upstreamModel: `cut-${bytes}`,
      endpoint: { endpointId: `cut-${bytes}` },
    }),
  )
  const cut = await startTestApp({ offers })
  upstream.always((request, response) => {
    const bytes = Number(request.body.model!.slice('cut-'.length))
    return closeAfter(bytes, { body, framing: bytes % 2 ? 'chunked' : 'length', reset: false })(request, response)
  })
  try {
    const customer = await cut.customer({ tier: 'scale' })
    const outcomes = await Promise.all(
      bySize.map(async bytes => {
        const response = await cut.chat(customer, {
          model: `cut-${bytes}`,
          messages: [{ role: 'user', content: 'Hello' }],
          stream: true,
          max_tokens: 10,
        })
        const text = await response.text()
        return { bytes, requestId: response.headers.get('x-request-id'), status: response.status, text }
      }),
    )
    const rows = new Map((await cut.usage(customer)).map(row => [row.request_id, row]))
    expect(rows.size).toBe(201)
    for (const { bytes, requestId, status: code, text } of outcomes) {
      const row = rows.get(requestId!)!
      const outcome = [bytes, code, text.includes('[DONE]'), row.cost_nanos]
      if (code !== 200) expect(outcome).toEqual([bytes, 500, false, 0n])
      else if (!text.includes('[DONE]')) {
        expect(outcome).toEqual([bytes, 200, false, 0n])
        expect(parseEventStream(text).error!.code).toBe('stream_interrupted')
      } else {
        expect(bytes).toBeGreaterThanOrEqual(finished)
        expect(outcome).toEqual([bytes, 200, true, bytes >= reported + 2 ? 7_000n : row.cost_nanos])
        expect([7_000n, 9_000n]).toContain(row.cost_nanos)
      }
      if (bytes < said) expect(code).toBe(500)
      if (bytes >= finished + 2) expect(text).toContain('[DONE]')
    }
  } finally {
    await cut.close()
  }
})
