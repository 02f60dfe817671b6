import type { ChatJob } from '../src/base/domain/chat-job.ts'
import { dialects } from '../src/base/domain/conversation.ts'
import { chatDialectWith } from '../src/wire/dialects/chat/chat-dialect.ts'
import { completionsDialectWith } from '../src/wire/dialects/completions/completions-dialect.ts'
import { embeddingsDialectWith } from '../src/wire/dialects/embeddings/embeddings-dialect.ts'
import { geminiDialectsWith } from '../src/wire/dialects/gemini/gemini-dialect.ts'
import { messagesDialectWith } from '../src/wire/dialects/messages/messages-dialect.ts'
import { nativeTask } from '../src/wire/dialects/native-task.ts'
import { rerankDialectWith } from '../src/wire/dialects/rerank/rerank-dialect.ts'
import { responsesDialectWith } from '../src/wire/dialects/responses/responses-dialect.ts'
import { offerOf } from '../test/supply/random-market.ts'
import { named } from './hostile/clients/fillers.ts'
import { markdownTable } from './markdown.ts'

/**
 * `npm run bench:body-cost`: how long bodies of many parts hold the event loop, in CPU time of this thread: to parse
 * them, and to write the request for a server of each dialect. See bench/README.md.
 */
const ROUNDS = 5
const OUTPUT_TOKENS = 16

const list = <Item>(count: number, item: (at: number) => Item) => Array.from({ length: count }, (_, at) => item(at))
const user = (content: unknown) => ({ role: 'user', content })
const chatCall = (at: number) => ({ id: `c${at}`, type: 'function', function: { name: 'f', arguments: '{"a":1}' } })
const chatCalls = (count: number) => ({
  messages: [
    ...list(Math.ceil(count / 4), at => ({ role: 'assistant', tool_calls: list(4, call => chatCall(at * 4 + call)) })),
    user('Hi'),
  ],
})

const parsers: Record<string, (body: Buffer) => ChatJob> = {
  chat: chatDialectWith().parseRequest,
  responses: responsesDialectWith(new Map()).parseRequest,
  messages: messagesDialectWith({ rules: new Map(), countInput: () => 0 }).parseRequest,
  gemini: geminiDialectsWith(new Map())[0].ofTarget!('/v1beta/models/bench:generateContent').parseRequest,
  completions: completionsDialectWith().parseRequest,
  embeddings: embeddingsDialectWith().parseRequest,
  rerank: rerankDialectWith().parseRequest,
}

const bodies: readonly (readonly [client: string, shape: string, body: object])[] = [
  ['chat', '4,096 calls', chatCalls(4_096)],
  ['chat', '2,048 texts', { messages: list(2_048, () => user('Hello there')) }],
  ['chat', '20,000 parts', { messages: list(20, () => user(list(1_000, () => ({ type: 'text', text: 'a' })))) }],
  [
    'chat',
    '1,000 images by address',
    {
      messages: [user(list(1_000, at => ({ type: 'image_url', image_url: { url: `https://example.com/${at}.png` } })))],
    },
  ],
  ['chat', '16,000 biases', { messages: [user('a')], logit_bias: named(16_000) }],
  ['chat', '4 MB of text', { messages: [user('a'.repeat(4e6))] }],
  [
    'responses',
    '8,000 calls',
    { input: list(8_000, at => ({ type: 'function_call', call_id: `c${at}`, name: 'f', arguments: '{}' })) },
  ],
  ['responses', '8,000 items', { input: list(8_000, () => user('Hello there')) }],
  [
    'messages',
    '12,000 calls',
    {
      max_tokens: 5,
      messages: [
        ...list(6, turn => ({
          role: 'assistant',
          content: list(2_000, at => ({ type: 'tool_use', id: `c${turn}_${at}`, name: 'f', input: {} })),
        })),
        user('Hi'),
      ],
    },
  ],
  [
    'messages',
    '20,000 blocks',
    { max_tokens: 5, messages: list(10, () => user(list(2_000, () => ({ type: 'text', text: 'a' })))) },
  ],
  [
    'gemini',
    '8,000 calls',
    {
      contents: [
        ...list(8, () => ({ role: 'model', parts: list(1_000, () => ({ functionCall: { name: 'f', args: {} } })) })),
        { role: 'user', parts: [{ text: 'Hi' }] },
      ],
    },
  ],
  [
    'gemini',
    '20,000 parts',
    { contents: list(10, () => ({ role: 'user', parts: list(2_000, () => ({ text: 'a' })) })) },
  ],
  ['completions', '290,000 token ids', { prompt: list(290_000, at => at) }],
  ['embeddings', '290,000 token ids', { input: list(290_000, at => at) }],
  ['rerank', '1,000 documents of 4 kB', { query: 'a', documents: list(1_000, () => 'x'.repeat(4_000)) }],
]

const rows = bodies.map(([client, shape, body]) => {
  const bytes = Buffer.from(JSON.stringify(client === 'gemini' ? body : { model: 'bench', ...body }))
  const parse = () => parsers[client]!(bytes)
  const written = dialects.map(speaks => {
    const offer = { ...offerOf(), speaks: [speaks] }
    const write = (job: ChatJob) => nativeTask(job, offer).requestBody(job, offer, OUTPUT_TOKENS)
    return parse().task === 'chat' ? cpuMs(parse, write) : ''
  })
  return [client, shape, (bytes.length / 1024).toFixed(0), cpuMs(() => bytes, parse), ...written]
})
process.stdout.write(
  `${markdownTable(['client', 'body', 'KiB', 'parse ms', ...dialects.map(name => `${name} ms`)], rows)}\n`,
)

/** The median of a few rounds after a first one, which compiles. */
function cpuMs<Input>(prepare: () => Input, work: (input: Input) => unknown): string {
  const times = list(ROUNDS + 1, () => {
    const input = prepare()
    const before = process.threadCpuUsage()
    work(input)
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  })
  const sorted = times.slice(1).sort((a, b) => a - b)
  return sorted[Math.floor(ROUNDS / 2)]!.toFixed(1)
}
