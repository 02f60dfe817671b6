import type { FastifyReply, FastifyRequest } from 'fastify'
import { routingHeaders } from './request-headers.ts'

/** Any origin may call the API: it uses no cookies, only keys that the page itself must hold. */
export const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'x-request-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, x-switchyard-provider, x-switchyard-hoster, ' +
    'x-switchyard-cost-usd, x-switchyard-max-tokens, x-switchyard-dropped-fields, x-switchyard-changed-fields, ' +
    'x-switchyard-schema-violation, x-switchyard-trace-id, ' +
    'idempotent-replayed, ' +
    'x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, ' +
    'x-ratelimit-limit-requests-day, x-ratelimit-remaining-requests-day, x-ratelimit-reset-requests-day',
}

export const corsHeaderList: readonly string[] = Object.entries(corsHeaders).flat()

const allowedHeaders = [
  ...['authorization', 'content-type', 'idempotency-key', 'x-goog-api-key'],
  ...Object.keys(routingHeaders),
].join(', ')

/**
 * Answers a preflight and allows all headers it requests: OpenAI's SDK sends its own X-Stainless-* headers
 * with every request.
 */
export async function answerPreflight(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const requested = request.headers['access-control-request-headers']
  reply.headers({
    'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': requested ?? allowedHeaders,
    'access-control-max-age': '86400',
    vary: 'access-control-request-headers',
  })
  reply.code(204).send()
}
