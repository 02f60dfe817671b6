import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { ChatCompletion, TokenUsage } from '../../../base/domain/completion.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { completionToAnswer } from '../chat/chunk-decoder.ts'
import { chatJobOf } from '../chat/conversation-to-chat.ts'
import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import { usageParts } from '../chat/usage.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { ToolNames } from '../tool-names.ts'
import { costField, TranslatedStream } from '../translated-stream.ts'
import type { ReasoningDisplay } from './answer-blocks.ts'
import { answerToMessage } from './answer-to-message.ts'
import { messageErrorSchema, messageEventSchema, messageSchema } from './message-schema.ts'
import { MessagesEncoder, PING_EVENT, STOP_EVENT } from './messages-encoder.ts'
import { messagesErrorBody } from './messages-error-body.ts'
import { parseMessagesRequest } from './messages-request.ts'
import { messagesRequestSchema } from './messages-request-schema.ts'
import { messagesUsage } from './messages-usage.ts'

const OPERATION_DESCRIPTION = `Generates an answer to a conversation in the form of Anthropic's Messages API. Limits, holds, receipts and routing are those of chat. The key may also be sent as \`x-api-key\`.

Unknown fields, types of blocks and betas are ignored, never refused. A model id may have the prefix \`claude/\`. \`max_tokens\` is lowered to what the model and the balance allow.

Tools run at the client; tools that Anthropic's servers would run are left out. Send thinking blocks back with the conversation.

**Streams.** With \`stream: true\`, the answer is a stream of server-sent events. It ends with \`message_stop\`, or with \`error\`. An answer that failed is free unless the message says otherwise.`

/** What an answer needs to know of its request. */
export interface MessagesJob extends ChatJob {
  readonly reasoningDisplay: ReasoningDisplay
}

export interface MessagesDialectOptions {
  readonly rules: ExtraFieldRules
  /** Counts the prompt, which a stream reports first. */
  readonly countInput: (job: ChatJob) => number
}

/** Anthropic's Messages API. */
export const messagesDialectWith = ({ rules, countInput }: MessagesDialectOptions): ClientDialect => ({
  path: '/v1/messages',
  operation: {
    operationId: 'createMessage',
    tag: 'Chat',
    summary: 'Create a message',
    description: OPERATION_DESCRIPTION,
    body: messagesRequestSchema,
    answer: messageSchema,
    answerDescription:
      'The message. With `stream: true`, server-sent events, each with a `MessageStreamEvent`. With `dry_run: true`, a quote.',
    chunk: messageEventSchema,
    error: messageErrorSchema,
  },
  parseRequest(body): MessagesJob {
    const { reasoningDisplay, ...request } = parseMessagesRequest(body)
    return { ...chatJobOf(request, rules), reasoningDisplay }
  },
  answer: {
    encode: (answer, job) => {
      // Omit loses the names of fields where a type has unknown ones too.
      const completion = answer as ChatCompletion
      return JSON.stringify(answerToMessage(completionToAnswer(completion), completion, displayOf(job)))
    },
    withUsage: (text, usage) => `${text.slice(0, -1)},"usage":${JSON.stringify(billedMessagesUsage(usage))}}`,
  },
  stream: {
    ping: PING_EVENT,
    encoder: (envelope, job) => {
      const encoder = new MessagesEncoder(envelope, countInput(job), displayOf(job))
      return new TranslatedStream(envelope, encoder, new ToolNames(job.source!.conversation()))
    },
    isComplete: events => events.endsWith(STOP_EVENT),
  },
  errorBody: messagesErrorBody,
  requestIdHeader: 'request-id',
})

/** The job may have got routing fields of headers since it was parsed, but keeps its display. */
function displayOf(job: ChatJob): ReasoningDisplay {
  return (job as MessagesJob).reasoningDisplay
}

/** Returns the usage of a message for a usage of chat, with the cost if it is known. */
function billedMessagesUsage(usage: TokenUsage): JsonObject {
  return { ...messagesUsage(usageParts(usage)), ...costField(usage) }
}
