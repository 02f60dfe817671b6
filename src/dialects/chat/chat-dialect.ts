import type { ClientDialect } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'
import { chatCompletionSchema } from './chat-completion-schema.ts'
import { parseChatRequest } from './chat-request.ts'
import { chatRequestSchema } from './chat-request-schema.ts'
import { chatStream } from './chat-stream.ts'
import type { ExtraFieldRules } from './forwarded-fields.ts'

/**
 * OpenAI's Chat Completions API.
 *
 * @param rules which kinds of servers get fields that OpenAI does not have; default: without additions of the
 *   configuration
 */
export const chatDialectWith = (rules?: ExtraFieldRules): ClientDialect => ({
  path: '/v1/chat/completions',
  operation: {
    operationId: 'createChatCompletion',
    tag: 'Chat',
    summary: 'Create a chat completion',
    body: chatRequestSchema,
    answer: chatCompletionSchema,
    answerDescription:
      'The completion. With `stream: true`, server-sent events of `chat.completion.chunk` objects that end with `data: [DONE]`. With `dry_run: true`, a quote.',
    stream: {
      description:
        'Sent for `stream: true`. Each `data:` line is a `chat.completion.chunk` object: the first names the role, one of the last has the `finish_reason`, and with `stream_options.include_usage` another has the usage. Lines that begin with a colon are keep-alive comments. A complete answer ends with `data: [DONE]`. A stream that fails after it was opened ends with a chunk that holds only `error`, without `data: [DONE]`; it is free unless the message says otherwise.',
      example: [
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}',
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}',
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        'data: [DONE]',
        '',
      ].join('\n\n'),
    },
  },
  parseRequest: body => parseChatRequest(body, rules),
  answer: {
    encode: answer => JSON.stringify(answer),
    withUsage: (text, usage) => `${text.slice(0, -1)},"usage":${JSON.stringify(usage)}}`,
  },
  stream: chatStream,
  errorBody,
})

export const chatDialect = chatDialectWith()
