import { z } from 'zod'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import type { ChatCompletion } from '../../../base/domain/completion.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { chatJobOf } from '../chat/conversation-to-chat.ts'
import type { ExtraFieldRules } from '../chat/upstream-request.ts'
import { usageParts } from '../chat/usage.ts'
import type { ClientDialect } from '../client-dialect.ts'
import { costField } from '../translated-stream.ts'
import { noStream } from '../whole-only.ts'
import { compactionBody, keptMessages } from './compact-request.ts'
import type { CompactionSeal } from './compaction-seal.ts'
import { responseUsage } from './response-usage.ts'
import { responsesErrorBody } from './responses-error-body.ts'
import { parseResponsesBody, readResponsesRequest, withOpenCompactions } from './responses-request.ts'
import { responsesRequestSchema } from './responses-request-schema.ts'

const OPERATION_DESCRIPTION = `Compacts a conversation that has become long. The model of the request writes a summary, which is billed as one request.

The answer has the messages of the user, and of the system, as they were, and one \`compaction\` item with the sealed summary. Send \`output\` as the beginning of the next \`input\`, unchanged; it works with every model of this server. Send \`tools\` as in the other requests of the conversation, so that the server can read its beginning from its cache.`

const example = {
  id: 'resp_00000000-0000-7000-8000-000000000001',
  object: 'response.compaction',
  created_at: 1795252195,
  output: [
    {
      id: 'msg_kept_0',
      type: 'message',
      status: 'completed',
      role: 'user',
      content: [{ type: 'input_text', text: 'Hello!' }],
    },
    { id: 'cmp_00000000-0000-7000-8000-000000000001', type: 'compaction', encrypted_content: 'sy1.compaction.AQ' },
  ],
  usage: {
    input_tokens: 190,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 192,
    cost_usd: 0.000013,
  },
}

const { shape } = responsesRequestSchema

const compactRequestSchema = z
  .looseObject({
    model: shape.model,
    input: shape.input,
    instructions: shape.instructions,
    max_output_tokens: shape.max_output_tokens.describe('Maximum number of tokens of the summary. Default 16,384.'),
    tools: shape.tools,
    parallel_tool_calls: shape.parallel_tool_calls,
    reasoning: shape.reasoning,
    prompt_cache_key: shape.prompt_cache_key,
    safety_identifier: shape.safety_identifier,
    user: shape.user,
    previous_response_id: shape.previous_response_id,
    tier: shape.tier,
    privacy_mode: shape.privacy_mode,
    trusted_only: shape.trusted_only,
    max_latency_ms: shape.max_latency_ms,
    fallback_models: shape.fallback_models,
    allow_hosters: shape.allow_hosters,
    deny_hosters: shape.deny_hosters,
    on_insufficient: shape.on_insufficient,
    max_cost_usd: shape.max_cost_usd,
    max_input_usd_per_million: shape.max_input_usd_per_million,
    max_output_usd_per_million: shape.max_output_usd_per_million,
    dry_run: shape.dry_run,
  })
  .meta({ id: 'CompactRequest', examples: [{ model: 'demo', input: 'Hello!' }] })

const compactionSchema = z
  .looseObject({
    id: z.string().describe('`resp_` followed by the request id. It cannot be a `previous_response_id`.'),
    object: z.literal('response.compaction'),
    created_at: z.int().nonnegative().describe('Unix seconds.'),
    output: z
      .array(z.looseObject({ type: z.string(), id: z.string() }))
      .describe(
        'The messages that were kept, then the compaction. Send all of it as the beginning of the next `input`.',
      ),
    usage: z.looseObject({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ id: 'CompactedResponse', examples: [example] })

/** What an answer needs to know of its request. */
interface CompactJob extends ChatJob {
  readonly kept: readonly JsonObject[]
}

/** Compacts conversations for clients of OpenAI's Responses API, with servers of any dialect. */
export const compactDialectWith = (rules: ExtraFieldRules, seal: CompactionSeal): ClientDialect => ({
  path: '/v1/responses/compact',
  operation: {
    operationId: 'compactResponse',
    tag: 'Chat',
    summary: 'Compact a conversation',
    description: OPERATION_DESCRIPTION,
    body: compactRequestSchema,
    answer: compactionSchema,
    answerDescription: 'The compacted conversation. With `dry_run: true`, a quote.',
  },
  parseRequest(body): CompactJob {
    const input = parseResponsesBody(body)
    const { settings: _, ...request } = readResponsesRequest(compactionBody(withOpenCompactions(input, seal)))
    // An earlier summary is part of the new one.
    return { ...chatJobOf(request, rules), kept: keptMessages(input) }
  },
  answer: {
    encode(answer, job) {
      // Omit loses the names of fields where a type has unknown ones too.
      const { id, created, choices } = answer as ChatCompletion
      const summary = choices[0]?.message.content
      if (typeof summary !== 'string' || summary.trim() === '') {
        const message = 'The model wrote no summary; you were not charged. Retry, or use another model.'
        throw new ApiError('upstream_unavailable', { message })
      }
      const suffix = id.replace(/^chatcmpl-/, '')
      const compaction = { id: `cmp_${suffix}`, type: 'compaction', encrypted_content: seal.seal(summary) }
      const output = [...(job as CompactJob).kept, compaction]
      return JSON.stringify({ id: `resp_${suffix}`, object: 'response.compaction', created_at: created, output })
    },
    withUsage: (text, usage) => {
      const billed = { ...responseUsage(usageParts(usage)), ...costField(usage) }
      return `${text.slice(0, -1)},"usage":${JSON.stringify(billed)}}`
    },
  },
  stream: noStream,
  errorBody: responsesErrorBody,
})
