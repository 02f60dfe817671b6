import { z } from 'zod'
import type { ErrorCode } from '../../base/domain/errors.ts'
import { chatQuoteSchema } from '../../wire/api/chat-quote-schema.ts'
import type { ClientDialect } from '../../wire/dialects/client-dialect.ts'
import { errorBody } from '../../wire/dialects/openai-error-body.ts'
import type { GenerationEndpoint } from '../endpoint.ts'
import { routingHeaders } from '../routing-headers.ts'
import { type GenerationDeps, serveGeneration } from './serve-generation.ts'

/** Returns the generation endpoint of a dialect. */
export function generationEndpoint(deps: GenerationDeps, dialect: ClientDialect): GenerationEndpoint {
  const { operationId, tag, summary, description, body, answer, answerDescription, chunk, error } = dialect.operation
  const { pathParameters, query } = dialect.operation
  return {
    method: 'POST',
    path: dialect.path,
    access: 'key',
    doc: {
      operationId,
      tag,
      summary,
      description,
      ...(pathParameters && { pathParameters }),
      ...(query && { query }),
      headers: requestHeaders,
      body,
      errors: generationErrors,
      ...(dialect.errorBody !== errorBody && {
        error: { ...(error && { schema: error }), body: dialect.errorBody },
      }),
      response: {
        contentType: 'application/json',
        schema: z.union([answer, chatQuoteSchema]).meta({ examples: answer.meta()?.examples }),
        description: answerDescription,
        ...(chunk && { alternatives: [{ contentType: 'text/event-stream', schema: chunk }] }),
      },
    },
    serve: (request, response) =>
      serveGeneration(deps, dialect.ofTarget?.(request.target) ?? dialect, request, response),
  }
}

const requestHeaders = z.object({
  'Idempotency-Key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe(
      'A unique name for this request. A repeat within 24 hours gets the same answer and is not charged again.',
    ),
  ...routingHeaders,
})

const generationErrors: readonly ErrorCode[] = [
  'context_length_exceeded',
  'feature_not_supported',
  'max_cost_too_low',
  'upstream_rejected',
  'insufficient_credits',
  'daily_spend_cap_reached',
  'key_spend_limit_reached',
  'member_spend_limit_reached',
  'account_in_debt',
  'in_flight_budget',
  'model_not_allowed',
  'model_not_found',
  'rate_limit_exceeded',
  'daily_limit_exceeded',
  'too_many_concurrent_requests',
  'idempotency_key_in_use',
  'already_completed',
  'idempotency_key_reused',
  'all_hosters_failed',
  'no_eligible_offer',
  'upstream_unavailable',
  'stream_interrupted',
  'overloaded',
  'server_shutdown',
  'settlement_unavailable',
]
