import { z } from 'zod'
import type { ErrorCode } from '../../../base/domain/errors.ts'
import type { Endpoint, EndpointDoc, ReplyingEndpoint } from '../../endpoint.ts'
import { isGeneration } from '../../generation-routes.ts'
import { readIdempotencyKey } from '../../request-headers.ts'
import { CONSOLE_PREFIX, markDoneOnce } from './operator-endpoint.ts'

const PREFIX = '/v1/admin/'

/**
 * Mounts the addresses of operators a second time, for programs: `/console/api/operator/customers` as
 * `/v1/admin/customers`. The handlers are the same. Those without a scope are for people only.
 */
export function forOperatorKeys(endpoints: readonly Endpoint[]): Endpoint[] {
  return endpoints.flatMap(endpoint => {
    const { operatorScope, path } = endpoint
    if (isGeneration(endpoint) || operatorScope == null || !path.startsWith(CONSOLE_PREFIX)) return []
    return [mounted(endpoint)]
  })
}

function mounted(endpoint: ReplyingEndpoint): ReplyingEndpoint {
  const { method, path, operatorScope = null, isDoneOnce, doc, handle } = endpoint
  return {
    method,
    path: PREFIX + path.slice(CONSOLE_PREFIX.length),
    access: 'operator_key',
    operatorScope,
    ...(isDoneOnce && { isDoneOnce }),
    doc: docOf(endpoint, doc),
    handle(context) {
      if (isDoneOnce) markDoneOnce(context.request, readIdempotencyKey)
      return handle(context)
    },
  }
}

const writeErrors: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_value',
  'missing_parameter',
  'request_too_large',
  'unsupported_media_type',
  'role_not_allowed',
]

function docOf(
  { method, path, operatorScope, isDoneOnce }: ReplyingEndpoint,
  { summary, query, errors = [], response }: EndpointDoc,
): EndpointDoc {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  const words = summary.replace(/[^a-zA-Z ]/g, '').split(' ')
  const repeats = isDoneOnce ? ' A repeat with the same `Idempotency-Key` gets the first answer.' : ''
  return {
    operationId: `admin${words.map(word => word.charAt(0).toUpperCase() + word.slice(1)).join('')}`,
    summary,
    description: `${summary}. Requires an operator key with the scope \`${operatorScope}\`.${repeats}`,
    tag: 'Operators',
    openapiPath: PREFIX + path.slice(CONSOLE_PREFIX.length).replace(/:(\w+)/g, '{$1}'),
    ...(names.length > 0 && {
      pathParameters: z.object(Object.fromEntries(names.map(name => [name, idSchema(name)]))),
    }),
    ...(query !== undefined && { query }),
    ...(isDoneOnce && { headers }),
    errors: [
      ...errors,
      ...(method === 'GET' ? [] : writeErrors),
      ...(names.length > 0 ? (['not_found'] as const) : []),
      ...(isDoneOnce ? (['idempotency_key_reused'] as const) : []),
    ],
    response,
  }
}

const headers = z.object({
  'Idempotency-Key': z
    .string()
    .optional()
    .meta({ description: 'Chosen by the client for each change, such as a UUID.', examples: ['grant-1042'] }),
})

function idSchema(name: string) {
  const what = name.replace(/_id$/, '').replaceAll('_', ' ')
  return z.string().meta({ description: `UUID of the ${what}.`, examples: ['0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11'] })
}
