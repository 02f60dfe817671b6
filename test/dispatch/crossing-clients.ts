import type { AnswerEvent } from '../../src/base/domain/answer-event.ts'
import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { ChatChunk, ChatCompletion, Envelope, TokenUsage } from '../../src/base/domain/completion.ts'
import type { Conversation } from '../../src/base/domain/conversation.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { chatToConversation } from '../../src/wire/dialects/chat/chat-to-conversation.ts'
import { ChunkDecoder, completionToAnswer } from '../../src/wire/dialects/chat/chunk-decoder.ts'
import { extraFieldRules } from '../../src/wire/dialects/chat/upstream-request.ts'
import type { ClientDialect, StreamEncoder } from '../../src/wire/dialects/client-dialect.ts'
import { geminiDialectsWith } from '../../src/wire/dialects/gemini/gemini-dialect.ts'
import { parseGeminiRequest } from '../../src/wire/dialects/gemini/gemini-request.ts'
import { GeminiDecoder } from '../../src/wire/dialects/gemini/upstream-answer.ts'
import { messageToAnswer } from '../../src/wire/dialects/messages/message-to-answer.ts'
import { MessagesDecoder } from '../../src/wire/dialects/messages/messages-decoder.ts'
import { messagesDialectWith } from '../../src/wire/dialects/messages/messages-dialect.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { responsesDialectWith } from '../../src/wire/dialects/responses/responses-dialect.ts'
import { parseResponsesRequest } from '../../src/wire/dialects/responses/responses-request.ts'
import { readResponse } from '../../src/wire/dialects/responses/upstream-response.ts'
import { ResponsesDecoder } from '../../src/wire/dialects/responses/upstream-stream.ts'
import type { SseEvent } from '../../src/wire/dialects/sse/sse-decoder.ts'
import { ToolNames } from '../../src/wire/dialects/tool-names.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'

/** What differs between clients of the dialects: how they ask, and how they read answers. */
export interface CrossingClient {
  /** A request with a tool `look`, which asks to see reasoning. */
  body(stream: boolean, history?: readonly unknown[]): JsonObject
  job(body: JsonObject): ChatJob
  encoder(envelope: Envelope, job: ChatJob): StreamEncoder
  /** Encodes a whole answer with its usage. */
  whole(completion: ChatCompletion, usage: TokenUsage, job: ChatJob): string
  readEvents(events: readonly SseEvent[]): AnswerEvent[]
  readWhole(text: string): AnswerEvent[]
  /** The history of the next request: the question, this whole answer, and the results of its calls. */
  history(answer: JsonObject, results: Readonly<Record<string, string>>): unknown[]
}

const bytesOf = (body: JsonObject) => Buffer.from(JSON.stringify(body))
const rules = extraFieldRules()
const schema = { type: 'object', properties: { at: { type: 'string' } } }
const noNames = new ToolNames({ tools: [] })

const responses = responsesDialectWith(rules)
const messages = messagesDialectWith({ rules, countInput: () => 12 })

const [geminiWhole, geminiStream] = geminiDialectsWith(rules)

const withDialect = ({ parseRequest, stream, answer }: ClientDialect) => ({
  job: (body: JsonObject) => parseRequest(bytesOf(body)),
  encoder: (envelope: Envelope, job: ChatJob) => stream.encoder(envelope, job),
  whole: ({ usage: _, ...completion }: ChatCompletion, usage: TokenUsage, job: ChatJob) =>
    answer.withUsage(answer.encode(completion, job), usage),
})

export const crossingClients: Readonly<Record<ScriptedDialect, CrossingClient>> = {
  chat: {
    ...withDialect(chatDialect),
    body: (stream, history = [{ role: 'user', content: 'Look!' }]) => ({
      model: 'public-model',
      messages: history,
      tools: [{ type: 'function', function: { name: 'look', parameters: schema } }],
      stream,
      stream_options: stream ? { include_usage: true } : null,
    }),
    readEvents: events => {
      const decoder = new ChunkDecoder()
      const texts = events.map(({ data }) => data)
      if (texts.pop() !== '[DONE]') throw new Error('The stream does not end with [DONE].')
      return texts.flatMap(text => decoder.push(JSON.parse(text) as ChatChunk))
    },
    readWhole: text => completionToAnswer(JSON.parse(text) as ChatCompletion),
    history: (answer, results) => [
      { role: 'user', content: 'Look!' },
      (answer.choices as JsonObject[])[0]!.message,
      ...Object.entries(results).map(([tool_call_id, content]) => ({ role: 'tool', tool_call_id, content })),
    ],
  },
  responses: {
    ...withDialect(responses),
    body: (stream, history = [{ role: 'user', content: 'Look!' }]) => ({
      model: 'public-model',
      input: history,
      tools: [{ type: 'function', name: 'look', parameters: schema }],
      reasoning: { summary: 'auto' },
      stream,
    }),
    readEvents: events => {
      const decoder = new ResponsesDecoder()
      return [...events.flatMap(event => decoder.push(event)), ...decoder.end()]
    },
    readWhole: text => readResponse(text),
    history: (answer, results) => [
      { role: 'user', content: 'Look!' },
      ...(answer.output as JsonObject[]),
      ...Object.entries(results).map(([call_id, output]) => ({ type: 'function_call_output', call_id, output })),
    ],
  },
  messages: {
    ...withDialect(messages),
    body: (stream, history = [{ role: 'user', content: 'Look!' }]) => ({
      model: 'public-model',
      max_tokens: 256,
      messages: history,
      tools: [{ name: 'look', input_schema: schema }],
      thinking: { type: 'adaptive', display: 'summarized' },
      stream,
    }),
    readEvents: events => {
      const decoder = new MessagesDecoder()
      return [...events.flatMap(event => decoder.push(event)), ...decoder.end()]
    },
    readWhole: text => messageToAnswer(JSON.parse(text) as JsonObject),
    history: ({ content }, results) => [
      { role: 'user', content: 'Look!' },
      { role: 'assistant', content },
      {
        role: 'user',
        content: Object.entries(results).map(([id, result]) => ({
          type: 'tool_result',
          tool_use_id: id,
          content: result,
        })),
      },
    ],
  },
  gemini: {
    body: (stream, history = [{ role: 'user', parts: [{ text: 'Look!' }] }]) => ({
      contents: history,
      tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: schema }] }],
      generationConfig: { thinkingConfig: { includeThoughts: true } },
      ...(stream && { stream }),
    }),
    ...withDialect(geminiStream),
    job: ({ stream = false, ...body }) => {
      const dialect = stream
        ? geminiStream.ofTarget!('/v1beta/models/public-model:streamGenerateContent?alt=sse')
        : geminiWhole.ofTarget!('/v1beta/models/public-model:generateContent')
      return dialect.parseRequest(bytesOf(body))
    },
    readEvents: events => {
      const decoder = new GeminiDecoder(noNames, 'none_')
      return [...events.flatMap(event => decoder.push(event)), ...decoder.end()]
    },
    readWhole: text => {
      const decoder = new GeminiDecoder(noNames, 'none_')
      return [...decoder.read(JSON.parse(text) as JsonObject), ...decoder.end()]
    },
    history: (answer, results) => {
      const { content } = (answer.candidates as JsonObject[])[0] as { content: { parts: JsonObject[] } }
      return [
        { role: 'user', parts: [{ text: 'Look!' }] },
        content,
        {
          role: 'user',
          parts: Object.entries(results).map(([id, output]) => ({
            functionResponse: { id, name: 'look', response: { output } },
          })),
        },
      ]
    },
  },
}

/** Reads the body that an upstream of a dialect got. */
export const readUpstreamBody: Readonly<Record<ScriptedDialect, (body: JsonObject) => Conversation>> = {
  chat: body => chatToConversation(body, null),
  responses: body => parseResponsesRequest(bytesOf(body)).conversation(),
  messages: body => parseMessagesRequest(bytesOf(body)).conversation(),
  gemini: body => parseGeminiRequest(bytesOf(body), { model: 'm', stream: false }).conversation(),
}
