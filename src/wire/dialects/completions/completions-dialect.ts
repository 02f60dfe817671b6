import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { errorBody } from '../openai-error-body.ts'
import { parseCompletionsRequest } from './completions-request.ts'
import { completionsRequestSchema } from './completions-request-schema.ts'
import { completionChunkSchema, completionSchema } from './completions-schema.ts'
import { textAnswer, textStream } from './text-completion.ts'

const OPERATION_DESCRIPTION = `Continues a text, without the roles of a conversation; with \`suffix\` it fills a gap. Editors use it for autocompletion. Models with the feature \`completions\` serve it.

Streams and the fields for servers are those of chat completions. \`echo\` and a \`best_of\` other than \`n\` are refused.`

/** OpenAI's Completions API, the older one without messages. */
export const completionsDialectWith = (rules?: ExtraFieldRules): ClientDialect => ({
  path: '/v1/completions',
  operation: {
    operationId: 'createCompletion',
    tag: 'Chat',
    summary: 'Complete a text',
    description: OPERATION_DESCRIPTION,
    body: completionsRequestSchema,
    answer: completionSchema,
    answerDescription:
      'The texts. With `stream: true`, server-sent events, each with a `CompletionChunk`. With `dry_run: true`, a quote.',
    chunk: completionChunkSchema,
  },
  parseRequest: body => parseCompletionsRequest(body, rules),
  answer: textAnswer,
  stream: textStream,
  errorBody,
})
