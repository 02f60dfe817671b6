import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { standardQuirks } from '../../src/base/domain/endpoint-defaults.ts'
import { startTestApp, testOffer, type UsageRow } from '../harness/app.ts'
import { type EventStream, parseEventStream } from '../harness/event-stream.ts'
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
  sse,
  sseBytes,
  stall,
  status,
  streamBytes,
  streamEvents,
  usageChunk,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  // One model per case: a breaker that one case trips does not affect the others.
  offers: cases.map(({ timeouts, hidesReasoning = false }, index) =>
    testOffer(upstream.baseUrl, {
      modelId: `model-${index}`,
      endpoint: {
        timeouts: { ...GENEROUS_TIMEOUTS, ...timeouts },
        dialect: { ...standardQuirks, hidesReasoning },
        ...endpointOf(index),
      },
    }),
  ),
  yaml: 'server: { ping_seconds: 60 }',
}))

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
  /** The request is not for a stream. */
  readonly noStream?: boolean
  readonly hoster?: boolean
  readonly maxTokens?: number
  readonly hidesReasoning?: boolean
  /** The shorter timeouts of the endpoint, for an upstream that stalls or never ends. */
  readonly timeouts?: Partial<typeof GENEROUS_TIMEOUTS>
  /** What the customer receives: a complete answer with this text, an error chunk after this text, or a status. */
  readonly receives:
    | { text: string; finish?: string }
    | { text: string; error: string }
    | { status: number; code: string }
  /** The billed input and output tokens, at 1,000 and 2,000 nano-USD each. Default: nothing is billed. */
  readonly pays?: readonly [input: number, output: number]
  readonly source?: 'upstream' | 'gateway'
  readonly check?: (facts: { stream: EventStream; row: UsageRow; body: string }) => void
}

/** The gateway's own count of the prompt: one token for "Hello", three for the message, three for the request. */
const countedInput = 7
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
  // Usage.
  {
    name: 'without usage, the gateway counts',
    behaviour: sse([role, one, two, stop, '[DONE]']),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
  },
  {
    name: 'usage of zeros counts as no usage',
    behaviour: sse([role, one, two, stop, usage(0, 0), '[DONE]']),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
  },
  {
    name: 'negative or fractional usage counts as no usage',
    behaviour: sse([
      role,
      one,
      two,
      stop,
      { choices: [], usage: { prompt_tokens: -5, completion_tokens: 1.5 } },
      '[DONE]',
    ]),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
  },
  {
    name: 'usage in strings counts as no usage',
    behaviour: sse([
      role,
      one,
      two,
      stop,
      { choices: [], usage: { prompt_tokens: '9', completion_tokens: '9' } },
      '[DONE]',
    ]),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
  },
  {
    name: 'usage that is sent twice is billed once',
    behaviour: sse([role, one, two, stop, usage(9, 2), usage(9, 2), '[DONE]']),
    receives: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'with cumulative usage on every chunk, the last one counts',
    behaviour: sse([
      role,
      { ...one, usage: usageOf(9, 1) },
      { ...two, usage: usageOf(9, 2) },
      { ...stop, usage: usageOf(9, 3) },
      '[DONE]',
    ]),
    receives: served,
    pays: [9, 3],
    source: 'upstream',
  },
  {
    name: 'zeros after a report do not replace it',
    behaviour: sse([role, one, two, { ...stop, usage: usageOf(9, 2) }, usage(0, 0), '[DONE]']),
    receives: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'a total above its parts is billed by its parts',
    behaviour: sse([role, one, two, { ...stop, usage: { ...usageOf(9, 2), total_tokens: 1_017 } }, '[DONE]']),
    receives: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'a total above its parts in an answer that is not streamed is billed by its parts',
    noStream: true,
    behaviour: answer({ text: 'one two', usage: { ...usageOf(9, 2), total_tokens: 1_017 } }),
    receives: served,
    pays: [9, 2],
    source: 'upstream',
  },
  {
    name: 'reasoning that a server is known to hide in the total is billed',
    hidesReasoning: true,
    behaviour: sse([role, one, two, { ...stop, usage: { ...usageOf(9, 2), total_tokens: 50 } }, '[DONE]']),
    receives: served,
    pays: [9, 41],
  },
  {
    name: 'reasoning that a server is known to hide in the total of an answer that is not streamed is billed',
    hidesReasoning: true,
    noStream: true,
    behaviour: answer({ text: 'one two', usage: { ...usageOf(9, 2), total_tokens: 50 } }),
    receives: served,
    pays: [9, 41],
  },
  {
    name: 'usage on the finish chunk',
    behaviour: sse([role, one, two, { ...stop, usage: usageOf(8, 2) }, '[DONE]']),
    receives: served,
    pays: [8, 2],
  },
  {
    name: 'reported input above the bound of the prompt is cut to the bound',
    behaviour: sse([role, one, two, stop, usage(1_000_000, 2), '[DONE]']),
    receives: served,
    pays: [85, 2],
  },
  {
    name: 'reported output above max_tokens is cut to max_tokens',
    behaviour: sse([role, one, two, stop, usage(9, 5_000), '[DONE]']),
    maxTokens: 20,
    receives: served,
    pays: [9, 20],
  },
  {
    name: 'a hoster report within 5 % and 8 tokens of our count is accepted',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(countedInput + 8, 2 + 8), '[DONE]']),
    receives: served,
    pays: [countedInput + 8, 10],
    source: 'upstream',
  },
  {
    name: 'a hoster report above that margin is replaced by our count',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(countedInput + 9, 2 + 9), '[DONE]']),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
    check: ({ row }) =>
      expect(row).toMatchObject({
        hoster_share_nanos: (row.cost_nanos * 8n) / 10n,
        fee_nanos: row.cost_nanos - (row.cost_nanos * 8n) / 10n,
      }),
  },
  {
    name: 'a hoster report below our count is accepted',
    hoster: true,
    behaviour: sse([role, one, two, stop, usage(3, 1), '[DONE]']),
    receives: served,
    pays: [3, 1],
    source: 'upstream',
  },
  {
    name: 'a JSON answer without usage: the gateway counts',
    noStream: true,
    behaviour: status(200, completion({ text: 'one two', usage: null })),
    receives: served,
    pays: [countedInput, 2],
    source: 'gateway',
  },

  // Endings.
  {
    name: 'no [DONE] after a finish_reason',
    behaviour: sse([role, one, two, stop, usage(9, 2)]),
    receives: served,
    pays: [9, 2],
  },
  {
    name: '[DONE] without a finish_reason',
    behaviour: sse([role, one, two, usage(9, 2), '[DONE]']),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'connection closed after the finish_reason',
    behaviour: sse([role, one, two, stop], { ending: 'close' }),
    receives: served,
    pays: [countedInput, 2],
  },
  {
    name: 'stalled after the finish_reason',
    behaviour: sse([role, one, two, stop], { ending: 'stall' }),
    timeouts: { idleMs: 500 },
    receives: served,
    pays: [countedInput, 2],
  },
  {
    name: 'stalled after [DONE]',
    behaviour: sse([role, one, two, stop, usage(9, 2), '[DONE]'], { ending: 'stall' }),
    receives: served,
    pays: [9, 2],
  },
  { name: 'reset in the middle', behaviour: sse([role, one, two], { ending: 'reset' }), receives: interrupted },
  { name: 'ended in the middle', behaviour: sse([role, one, two]), receives: interrupted },
  {
    name: 'stalled in the middle',
    behaviour: sse([role, one, two], { ending: 'stall' }),
    timeouts: { idleMs: 500 },
    receives: interrupted,
  },
  {
    name: 'usage without a finish_reason or [DONE] does not complete an answer',
    behaviour: sse([role, one, two, usage(9, 2)]),
    receives: interrupted,
  },
  {
    name: 'never ends',
    behaviour: neverEnding({ everyMs: 20 }),
    timeouts: { totalMs: 1_000 },
    receives: { text: 'more', error: 'stream_interrupted' },
  },
  {
    name: 'ignores max_tokens: cut with finish_reason length, billed up to max_tokens',
    maxTokens: 10,
    behaviour: neverEnding({ piece: 'more ', everyMs: 0 }),
    receives: { text: 'more', finish: 'length' },
    pays: [countedInput, 10],
    check: ({ stream }) => expect(stream.text.length).toBeLessThan(1_000),
  },
  {
    name: 'ignores max_tokens in one huge delta',
    maxTokens: 10,
    behaviour: sse([role, contentChunk('more '.repeat(5_000)), contentChunk('and more'), stop, '[DONE]']),
    receives: { text: 'more', finish: 'length' },
    pays: [countedInput, 10],
  },
  {
    name: 'ignores max_tokens in a chunk with its own finish_reason',
    maxTokens: 10,
    behaviour: sse([
      role,
      { choices: [{ index: 0, delta: { content: 'more '.repeat(500) }, finish_reason: 'stop' }] },
      '[DONE]',
    ]),
    receives: { text: 'more', finish: 'length' },
    pays: [countedInput, 10],
    check: ({ stream }) => expect(stream.finishReasons).toEqual(['length']),
  },
  {
    name: 'ignores max_tokens in a JSON answer',
    noStream: true,
    maxTokens: 10,
    behaviour: status(200, completion({ text: 'more '.repeat(500), usage: usageOf(9, 500) })),
    receives: { text: 'more', finish: 'stop' },
    pays: [9, 10],
  },

  // Failures before the first content.
  { name: 'closes the connection without a byte', behaviour: hangUp(), receives: failed },
  {
    name: 'nests the arguments of a tool call too deep to serialize',
    behaviour: rawResponse(
      `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":${'{"0":'.repeat(20_000)}1${'}'.repeat(20_000)}}}]}}]}\n\n`,
      { framing: 'chunked' },
    ),
    receives: failed,
  },
  { name: 'resets the connection without a byte', behaviour: hangUp('reset'), receives: failed },
  { name: 'never answers', behaviour: stall(), timeouts: { firstTokenMs: 300 }, receives: failed },
  {
    name: 'never answers a request that is not for a stream',
    noStream: true,
    behaviour: stall(),
    timeouts: { totalMs: 500 },
    receives: failed,
  },
  { name: 'nothing after the headers', behaviour: stall('headers'), timeouts: { firstTokenMs: 300 }, receives: failed },
  {
    name: 'stalls after the role',
    behaviour: sse([role], { ending: 'stall' }),
    timeouts: { firstTokenMs: 300 },
    receives: failed,
  },
  { name: 'an empty body', behaviour: sse([]), receives: failed },
  { name: 'only comments', behaviour: rawResponse(': hi\n\n: hi\n\n', { framing: 'chunked' }), receives: failed },
  { name: 'only [DONE]', behaviour: sse(['[DONE]']), receives: failed },
  { name: 'no output, but usage', behaviour: sse([role, stop, usage(9, 7), '[DONE]']), receives: failed },
  {
    name: 'no output in a JSON answer',
    noStream: true,
    behaviour: status(200, completion({ text: '', usage: usageOf(9, 7) })),
    receives: failed,
  },
  { name: 'no choices', noStream: true, behaviour: status(200, { id: 'x', choices: [] }), receives: failed },
  {
    name: 'null',
    noStream: true,
    behaviour: status(200, 'null', { 'content-type': 'application/json' }),
    receives: failed,
  },
  {
    name: 'half a JSON answer',
    noStream: true,
    behaviour: rawResponse(JSON.stringify(completion()).slice(0, 80), {
      framing: 'length',
      contentLength: 500,
      headers: { 'content-type': 'application/json' },
    }),
    receives: failed,
  },
  {
    name: 'content_filter without text is a complete answer',
    behaviour: sse([role, chunk({}, 'content_filter'), usage(9, 0), '[DONE]']),
    receives: { text: '', finish: 'content_filter' },
  },

  // Responses that are not answers.
  { name: 'HTML with status 200', behaviour: html200(), receives: failed },
  { name: 'HTML with status 200, not a stream', noStream: true, behaviour: html200(), receives: failed },
  {
    name: 'HTML declared as events',
    behaviour: rawResponse('<html><body>Sign in</body></html>\n\n', { framing: 'chunked' }),
    receives: failed,
  },
  {
    name: '200 with an error object',
    noStream: true,
    behaviour: status(200, { error: { message: 'no memory', type: 'server_error' } }),
    receives: failed,
  },
  {
    name: '200 with an error object for a stream',
    behaviour: status(200, { error: { message: 'no memory', type: 'server_error' } }),
    receives: failed,
  },
  {
    name: '200 with an error string',
    noStream: true,
    behaviour: status(200, { error: 'no memory' }),
    receives: failed,
  },
  {
    name: '200 with an error that blames the request',
    noStream: true,
    behaviour: status(200, { error: { message: 'bad top_p', type: 'invalid_request_error', param: 'top_p' } }),
    receives: { status: 400, code: 'upstream_rejected' },
  },
  { name: '204', behaviour: status(204), receives: failed },
  { name: '302', behaviour: status(302, '', { location: 'http://127.0.0.1:1/v1/chat/completions' }), receives: failed },
  { name: '418', behaviour: status(418, 'teapot'), receives: failed },
  {
    name: 'gzip that was not requested',
    behaviour: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
      response.end(gzipSync(streamBytes()))
    },
    receives: failed,
  },
  {
    name: 'a JSON answer to a request for a stream',
    behaviour: status(200, completion({ text: 'one two', usage: usageOf(9, 2) })),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'chunked garbage',
    behaviour: rawResponse(
      'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\ngarbage\r\n',
    ),
    receives: failed,
  },
  { name: 'no HTTP at all', behaviour: rawResponse('\u0000\u0001\u0002 hello'), receives: failed },
  {
    name: 'headers that never end',
    behaviour: rawResponse(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}`),
    receives: failed,
  },
  {
    name: 'fewer bytes than Content-Length',
    behaviour: rawResponse(sseBytes([role, one, two]), { framing: 'length', contentLength: 10_000 }),
    receives: interrupted,
  },
  {
    name: 'more bytes than Content-Length',
    behaviour: rawResponse(streamBytes({ text: 'one two' }), {
      framing: 'length',
      contentLength: sseBytes([role, one, two]).length,
    }),
    receives: interrupted,
  },
  {
    name: 'a huge line',
    behaviour: rawResponse(`data: {"choices":[{"delta":{"content":"${'x'.repeat(17_000_000)}"}}]}\n\n`, {
      framing: 'chunked',
    }),
    receives: failed,
  },
  {
    name: 'a huge line after content',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from(`data: ${'x'.repeat(17_000_000)}`)]),
      {
        framing: 'chunked',
      },
    ),
    receives: interrupted,
  },
  { name: 'broken JSON before content', behaviour: sse([role, '{"choices":[']), receives: failed },
  { name: 'broken JSON after content', behaviour: sse([role, one, two, '{"choices":[']), receives: interrupted },
  { name: 'an event that is an array', behaviour: sse([role, one, two, '[1]', stop]), receives: interrupted },

  // Errors inside a stream.
  {
    name: 'an error before content',
    behaviour: sse([role, { error: { message: 'no memory', code: 500 } }]),
    receives: failed,
  },
  {
    name: 'an error after content',
    behaviour: sse([role, one, two, { error: { message: 'no memory', code: 'x' } }]),
    receives: interrupted,
  },
  {
    name: 'an error event before content',
    behaviour: rawResponse('event: error\ndata: {"message":"no memory"}\n\n', { framing: 'chunked' }),
    receives: failed,
  },
  {
    name: 'an error event after content',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from('event: error\ndata: {"message":"no memory"}\n\n')]),
      { framing: 'chunked' },
    ),
    receives: interrupted,
  },
  {
    name: 'an error field after content (old llama.cpp)',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one, two]), Buffer.from('error: {"code":500,"message":"x"}\n\n')]),
      { framing: 'chunked' },
    ),
    receives: interrupted,
  },
  {
    name: 'an error after the finish_reason is ignored',
    behaviour: sse([role, one, two, stop, { error: { message: 'x' } }]),
    receives: served,
    pays: [countedInput, 2],
  },
  {
    name: 'an error with a numeric code, not a stream',
    noStream: true,
    behaviour: status(503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }),
    receives: failed,
  },

  // Unusual but valid.
  {
    name: 'one byte per write',
    behaviour: rawResponse(bytewise(streamBytes({ text: 'one two', usage: usageOf(9, 2) })), { framing: 'chunked' }),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'split UTF-8',
    behaviour: rawResponse(bytewise(sseBytes([role, contentChunk('zwölf 🦩'), stop, usage(9, 4), '[DONE]'])), {
      framing: 'close',
    }),
    receives: { text: 'zwölf 🦩', finish: 'stop' },
    pays: [9, 4],
  },
  {
    name: 'CRLF',
    behaviour: sse(streamEvents({ text: 'one two', usage: usageOf(9, 2) }), { eol: '\r\n' }),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'CR alone',
    behaviour: sse(streamEvents({ text: 'one two', usage: usageOf(9, 2) }), { eol: '\r' }),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'a byte order mark',
    behaviour: rawResponse(
      Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), streamBytes({ text: 'one two', usage: usageOf(9, 2) })]),
      { framing: 'chunked' },
    ),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'comments, ids and retry lines between events',
    behaviour: rawResponse(
      `: hello\nid: 1\nretry: 5\n${streamBytes({ text: 'one two', usage: usageOf(9, 2) })
        .toString()
        .replaceAll('\n\n', '\n\n: x\n\n')}`,
      { framing: 'chunked' },
    ),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'no space after data:',
    behaviour: rawResponse(
      streamBytes({ text: 'one two', usage: usageOf(9, 2) })
        .toString()
        .replaceAll('data: ', 'data:'),
      { framing: 'chunked' },
    ),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'another content type',
    behaviour: rawResponse(streamBytes({ text: 'one two', usage: usageOf(9, 2) }), {
      framing: 'chunked',
      headers: { 'content-type': 'text/plain' },
    }),
    receives: served,
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
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'no role in any chunk',
    behaviour: sse([one, two, stop, usage(9, 2), '[DONE]']),
    receives: served,
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
    receives: served,
    pays: [9, 2],
    check: ({ stream }) => expect(stream.chunks.filter(each => each.choices[0]?.delta.role).length).toBe(1),
  },
  {
    name: 'an empty first chunk with filter results',
    behaviour: sse([{ choices: [], prompt_filter_results: [] }, role, one, two, stop, usage(9, 2), '[DONE]']),
    receives: served,
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
    receives: served,
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
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'with several finish reasons, the first one counts',
    behaviour: sse([role, one, two, stop, chunk({}, 'length'), stop, usage(9, 2), '[DONE]']),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'content after a finish_reason that came too early',
    behaviour: sse([role, one, two, stop, contentChunk(' three'), '[DONE]']),
    receives: { text: 'one two three', finish: 'stop' },
    pays: [countedInput, 3],
  },
  {
    name: 'a finish reason in every chunk',
    behaviour: sse([chunk({ content: 'one' }, 'stop'), chunk({ content: ' two' }, 'stop'), usage(9, 2), '[DONE]']),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'connection closed in the middle, with a finish reason in every chunk',
    behaviour: sse([chunk({ content: 'one' }, 'stop'), chunk({ content: ' two' }, 'stop')], { ending: 'close' }),
    receives: { text: 'one two', error: 'stream_interrupted' },
  },
  {
    name: 'an answer with the finish_reason abort',
    behaviour: sse([
      role,
      one,
      two,
      { choices: [{ index: 0, delta: {}, finish_reason: 'abort' }] },
      usage(9, 2),
      '[DONE]',
    ]),
    receives: { text: 'one two', error: 'stream_interrupted' },
  },
  {
    name: 'an unknown finish reason becomes stop',
    behaviour: sse([
      role,
      one,
      two,
      { choices: [{ index: 0, delta: {}, finish_reason: 'eos_token' }] },
      usage(9, 2),
      '[DONE]',
    ]),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'events after [DONE]',
    behaviour: sse([role, one, two, stop, usage(9, 2), '[DONE]', contentChunk('late'), '[DONE]']),
    receives: served,
    pays: [9, 2],
  },
  {
    name: 'NUL in the text',
    behaviour: sse([role, contentChunk('one\u0000 two'), stop, usage(9, 2), '[DONE]']),
    receives: { text: 'one\u0000 two', finish: 'stop' },
    pays: [9, 2],
  },
  {
    name: 'NUL between events',
    behaviour: rawResponse(
      Buffer.concat([sseBytes([role, one]), Buffer.from('\u0000\n\n'), sseBytes([two, stop, '[DONE]'])]),
      { framing: 'chunked' },
    ),
    receives: served,
    pays: [countedInput, 2],
  },
  {
    name: 'forged ids and models',
    behaviour: sse([
      chunk({ content: 'one' }, null, { id: 'chatcmpl-forged', model: 'gpt-9' }),
      chunk({ content: ' two' }, null, { id: 'other', model: 'other' }),
      stop,
      usage(9, 2),
      '[DONE]',
    ]),
    receives: served,
    pays: [9, 2],
    check: ({ body }) => expect(body).not.toMatch(/forged|gpt-9|other/),
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
    receives: served,
    pays: [9, 2],
    check: ({ body }) => {
      expect(body).not.toContain('polluted')
      expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    },
  },
  {
    name: 'response headers of the upstream are not forwarded',
    behaviour: answer({
      text: 'one two',
      usage: usageOf(9, 2),
      headers: { 'set-cookie': 'a=b', 'x-request-id': 'theirs', 'strict-transport-security': 'max-age=1', link: '<x>' },
    }),
    receives: served,
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
    receives: { text: '', finish: 'tool_calls' },
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
    receives: { text: '', finish: 'tool_calls' },
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
    receives: { text: '', finish: 'tool_calls' },
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
    receives: { text: '', finish: 'tool_calls' },
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
    receives: { text: '', error: 'stream_interrupted' },
  },
]

describe('the customer receives and pays the right amount', () => {
  test.each(cases.map((each, index) => ({ ...each, index })))('$name', async ({ index, ...expected }) => {
    const customer = await gateway.customer()
    const model = `model-${index}`
    const sentBefore = upstream.requests.length
    upstream.always(expected.behaviour)
    const response = await gateway.chat(customer, {
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      ...(expected.noStream ? {} : { stream: true }),
      ...(expected.maxTokens === undefined ? {} : { max_tokens: expected.maxTokens }),
    })
    const body = await response.text()
    // Two: a request on a reused connection that closes without a byte is sent again on a new one.
    expect(upstream.requests.length - sentBefore).toBeLessThanOrEqual(2)
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

    const { receives } = expected
    if ('status' in receives) {
      expect(response.status).toBe(receives.status)
      expect(JSON.parse(body).error).toMatchObject({ code: receives.code })
      expect(body).not.toMatch(/no memory|127\.0\.0\.1/)
      return
    }
    expect(response.status).toBe(200)
    if (expected.noStream) {
      const [choice] = JSON.parse(body).choices
      expect(choice.message.content.slice(0, receives.text.length)).toBe(receives.text)
      return
    }
    const stream = parseEventStream(body)
    if (receives.text === served.text) expect(stream.text).toBe(receives.text)
    else expect(stream.text.startsWith(receives.text)).toBe(true)
    expect(stream.chunks.filter(each => each.choices[0]?.delta.role === 'assistant').length).toBe(1)
    if ('error' in receives) {
      expect(stream).toMatchObject({ done: false, error: { type: 'upstream_error', code: receives.error } })
      expect(row).toMatchObject({ success: false, outcome: 'interrupted' })
    } else {
      expect(stream).toMatchObject({ done: true, error: null, finishReasons: [receives.finish] })
      expect(row).toMatchObject({ success: true, outcome: 'served', finish_reason: receives.finish })
    }
    expected.check?.({ stream, row: row!, body })
  })
})

test('a stream that is cut after any of its 200 bytes is billed if it was complete, and otherwise free without [DONE]', async () => {
  const events = [{ choices: [{ delta: { content: 'Hi' } }] }, { choices: [{ delta: {}, finish_reason: 'stop' }] }]
  const usage = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } }
  const stream = sseBytes([...events, usage, '[DONE]'])
  const body = Buffer.concat([Buffer.from(`:${'-'.repeat(198 - stream.length)}\n`), stream])
  expect(body.length).toBe(200)
  // From this byte on the finish_reason can have been read: the first line end, or the end of the stream, ends its event.
  const finished = body.indexOf('"finish_reason":"stop"}]}') + '"finish_reason":"stop"}]}'.length
  const hasContent = body.indexOf('"Hi"}}]}') + '"Hi"}}]}'.length
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
    const rows = new Map((await cut.settled(customer, 201)).map(row => [row.request_id, row]))
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
      if (bytes < hasContent) expect(code).toBe(500)
      if (bytes >= finished + 2) expect(text).toContain('[DONE]')
    }
  } finally {
    await cut.close()
  }
})
