import { parseEventStream } from './event-stream.ts'

// What clients of each endpoint send, and how they read its answers.

export type ClientName = 'chat' | 'completions' | 'responses' | 'messages' | 'gemini' | 'embeddings' | 'rerank'

export interface ClientWire {
  /** The path, the headers and the body of a request. */
  request(asked: { model: string; key: string; text: string; maxTokens: number; stream: boolean }): WireRequest
  /** Whether a whole answer has what clients read. */
  isAnswer(body: Json): boolean
  /** Reads a stream that has ended or broken off. Throws if no client of this dialect could read it. */
  readStream(text: string): { readonly isComplete: boolean; readonly errorCode: string | null }
  /** The code of an error of this dialect; undefined for any other body. */
  errorCode(body: Json): string | undefined
}

export interface WireRequest {
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: object
}

// biome-ignore lint/suspicious/noExplicitAny: a body of any dialect
type Json = any

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const openAiError = ({ error }: Json): string | undefined =>
  typeof error?.message === 'string' && typeof error.type === 'string' && 'param' in error ? error.code : undefined

const chatStream: ClientWire['readStream'] = text => {
  const { chunks, done, error } = parseEventStream(text)
  const named = new Set<number>()
  for (const { index, id } of chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])) {
    if (id !== undefined) named.add(index)
    else if (!named.has(index)) throw new Error(`tool call ${index} has arguments before its id`)
  }
  return { isComplete: done, errorCode: error?.code ?? null }
}

const neverStreams: ClientWire['readStream'] = () => {
  throw new Error('this endpoint never streams')
}

export const clientWires: Readonly<Record<ClientName, ClientWire>> = {
  chat: {
    request: ({ model, key, text, maxTokens, stream }) => ({
      path: '/v1/chat/completions',
      headers: bearer(key),
      body: { model, stream, max_tokens: maxTokens, messages: [{ role: 'user', content: text }] },
    }),
    isAnswer: ({ choices }) => typeof choices?.[0]?.message.content === 'string',
    readStream: chatStream,
    errorCode: openAiError,
  },
  completions: {
    request: ({ model, key, text, maxTokens, stream }) => ({
      path: '/v1/completions',
      headers: bearer(key),
      body: { model, stream, max_tokens: maxTokens, prompt: text },
    }),
    isAnswer: ({ choices }) => typeof choices?.[0]?.text === 'string',
    readStream(text) {
      const last = text
        .slice(0, text.lastIndexOf('\n\n') + 1)
        .split('\n')
        .findLast(line => line !== '')
      if (last?.startsWith('data: {"error"')) {
        const code = openAiError(JSON.parse(last.slice('data: '.length)))
        return { isComplete: false, errorCode: code ?? 'no error of OpenAI' }
      }
      return { isComplete: last === 'data: [DONE]', errorCode: null }
    },
    errorCode: openAiError,
  },
  responses: {
    request: ({ model, key, text, maxTokens, stream }) => ({
      path: '/v1/responses',
      headers: bearer(key),
      body: { model, stream, max_output_tokens: maxTokens, on_insufficient: 'refuse', input: text },
    }),
    isAnswer: ({ status, output }) => status === 'completed' && output.length > 0,
    readStream(text) {
      const events = namedEvents(text)
      const misplaced = events.findIndex(({ sequence_number: number }, index) => number !== index)
      if (misplaced !== -1) throw new Error(`event ${misplaced} has another sequence_number`)
      const { type, response } = events.at(-1) ?? {}
      checkItems(events)
      if (type === 'response.failed') return { isComplete: false, errorCode: response.error.code }
      return { isComplete: type === 'response.completed' || type === 'response.incomplete', errorCode: null }
    },
    errorCode: openAiError,
  },
  messages: {
    request: ({ model, key, text, maxTokens, stream }) => ({
      path: '/v1/messages',
      headers: { 'x-api-key': key, 'anthropic-version': '2023-06-01' },
      body: {
        model,
        stream,
        max_tokens: maxTokens,
        on_insufficient: 'refuse',
        messages: [{ role: 'user', content: text }],
      },
    }),
    isAnswer: ({ type, stop_reason: reason }) => type === 'message' && reason === 'end_turn',
    readStream(text) {
      const events = namedEvents(text)
      const last = events.at(-1)
      checkBlocks(events)
      if (last?.type === 'error') return { isComplete: false, errorCode: messagesError(last) ?? 'no error of messages' }
      return { isComplete: last?.type === 'message_stop', errorCode: null }
    },
    errorCode: messagesError,
  },
  gemini: {
    request: ({ model, key, text, maxTokens, stream }) => ({
      path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      headers: { 'x-goog-api-key': key },
      body: {
        contents: [{ role: 'user', parts: [{ text }] }],
        generationConfig: { maxOutputTokens: maxTokens },
        on_insufficient: 'refuse',
      },
    }),
    isAnswer: ({ candidates }) => candidates?.[0]?.finishReason === 'STOP',
    readStream(text) {
      const last = dataOf(text).at(-1)
      if (last?.error !== undefined) return { isComplete: false, errorCode: geminiError(last) ?? 'no error of Gemini' }
      return { isComplete: last?.candidates?.[0]?.finishReason !== undefined, errorCode: null }
    },
    errorCode: geminiError,
  },
  embeddings: {
    request: ({ model, key, text }) => ({
      path: '/v1/embeddings',
      headers: bearer(key),
      body: { model, input: [text] },
    }),
    isAnswer: ({ data }) => data?.length === 1,
    readStream: neverStreams,
    errorCode: openAiError,
  },
  rerank: {
    request: ({ model, key, text }) => ({
      path: '/v1/rerank',
      headers: bearer(key),
      body: { model, query: 'shunting', documents: [text] },
    }),
    isAnswer: ({ results }) => results?.length === 1,
    readStream: neverStreams,
    errorCode: openAiError,
  },
}

/** Checks that each item begins once, ends once, and is in the response at the end. */
function checkItems(events: readonly Json[]): void {
  const ids: string[] = []
  const done: Json[] = []
  for (const { type, output_index: index, item, response } of events) {
    if (type === 'response.output_item.added' && ids.push(item.id) !== index + 1)
      throw new Error(`item ${index} begins out of order`)
    if (index !== undefined && ids[index] === undefined) throw new Error(`${type} is of no item`)
    if (type === 'response.output_item.done' && ids[index] !== item.id) throw new Error(`item ${index} has two ids`)
    if (type === 'response.output_item.done') done[index] = item
    if (type === 'response.completed' && JSON.stringify(response.output) !== JSON.stringify(done))
      throw new Error('the response has other items than the stream')
  }
}

/** Checks that the blocks of a message come one after the other, each with its beginning and its end. */
function checkBlocks(events: readonly Json[]): void {
  let open: number | null = null
  let begun = 0
  for (const { type, index } of events) {
    if (type === 'content_block_start') {
      if (open !== null || index !== begun) throw new Error(`block ${index} begins out of order`)
      open = begun++
    } else if (index !== undefined && index !== open) throw new Error(`${type} is of block ${index}, not ${open}`)
    if (type === 'content_block_stop') open = null
    if (type === 'message_stop' && open !== null) throw new Error(`block ${open} has no end`)
  }
}

function messagesError({ type, error }: Json): string | undefined {
  return type === 'error' && typeof error?.message === 'string' && typeof error.type === 'string'
    ? error.code
    : undefined
}

function geminiError({ error }: Json): string | undefined {
  return typeof error?.code === 'number' && typeof error.message === 'string' && typeof error.status === 'string'
    ? error.details[0].reason
    : undefined
}

/** The data of the complete events of a stream. A broken connection may have cut the last one. */
function dataOf(text: string): Json[] {
  return text
    .slice(0, text.lastIndexOf('\n\n') + 1)
    .split('\n')
    .filter(line => line.startsWith('data: '))
    .map(line => JSON.parse(line.slice('data: '.length)))
}

/** The same, where the line `event:` repeats the type of each. */
function namedEvents(text: string): Json[] {
  const names = [...text.matchAll(/^event: (.*)\n/gm)].map(([, name]) => name)
  const events = dataOf(text)
  for (const [index, { type }] of events.entries())
    if (names[index] !== type) throw new Error(`event ${index} is named ${names[index]}, and its type is ${type}`)
  return events
}
