import type { ClientDialect } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'
import { chatChunkSchema, chatCompletionSchema } from './chat-completion-schema.ts'
import { parseChatRequest } from './chat-request.ts'
import { chatRequestSchema } from './chat-request-schema.ts'
import { chatStream } from './chat-stream.ts'
import type { ExtraFieldRules } from './forwarded-fields.ts'

const OPERATION_DESCRIPTION = `Generates an answer to a conversation. A local server, a hoster or a cloud generates it; its cost is charged to the credit balance. A request that no server answers costs nothing.

**Streams.** With \`stream: true\`, the answer is a stream of server-sent events:

\`\`\`
data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795252195,"model":"demo","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]
\`\`\`

Lines that begin with a colon are keep-alive comments. A complete answer ends with \`data: [DONE]\`. A stream that fails after it was opened ends with an event that holds only an \`error\`, without \`data: [DONE]\`. It is free unless the message says otherwise.

**Other fields.** The body may have further fields of OpenAI, such as \`top_p\`, \`stop\` or \`response_format\`. They are passed on to the server. A field that the server does not get is named in the header \`x-switchyard-dropped-fields\`.`

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
    description: OPERATION_DESCRIPTION,
    body: chatRequestSchema,
    answer: chatCompletionSchema,
    answerDescription:
      'The completion. With `stream: true`, server-sent events, each with a `ChatCompletionChunk`. With `dry_run: true`, a quote.',
    chunk: chatChunkSchema,
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
