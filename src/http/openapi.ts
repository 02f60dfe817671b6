import { type ZodObject, type ZodType, z } from 'zod'
import packageJson from '../../package.json' with { type: 'json' }
import { errorBody } from '../dialects/error-body.ts'
import { ApiError, type ErrorCode, errorTable } from '../domain/errors.ts'
import type { Endpoint, EndpointDoc } from './endpoint.ts'

type Json = Record<string, unknown>

/** Returns the OpenAPI 3.1 document of the endpoints, generated from the schemas that parse their requests. */
export function openapiDocument(endpoints: readonly Endpoint[]): Json {
  const schemas: Record<string, Json> = { Error: errorSchema }
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    // Scripts are part of a page and no operation of the API.
    if (endpoint.doc.response?.contentType === 'text/javascript') continue
    const path = endpoint.doc.openapiPath ?? endpoint.path
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, path, schemas) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Switchyard',
      version: packageJson.version,
      summary: packageJson.description,
      description: INTRODUCTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This gateway' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: sorted(schemas),
      examples: Object.fromEntries(errorCodes.map(code => [code, errorExample(code)])),
      headers: {
        RequestId: {
          description: 'The id of this request. Quote it in support questions.',
          schema: { type: 'string' },
        },
      },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer sk-sy-...`' },
      },
    },
  }
}

const INTRODUCTION = `Text generation paid from prepaid credit, compatible with the OpenAI API. Set the base URL of any OpenAI SDK to \`/v1\` of this gateway.

Every error has the shape \`{"error": {"message", "type", "param", "code"}}\`. Amounts of money are exact and in USD. A request costs its tokens at the price of the server that answered; it is free when no server answered. Days, weeks and months are in UTC.`

const tags: Record<EndpointDoc['tag'], string> = {
  Chat: 'Generate text.',
  Usage: 'Usage, costs and credit. These requests are free and do not count against the request limits of generation.',
  Keys: 'Manage API keys. These requests are free and do not count against the request limits of generation.',
  Models: 'The models on offer.',
  Alerts: 'Get notified of a low balance, the daily cap, keys at their limit, and large charges.',
  Service: 'The state and documentation of the gateway.',
}

const errorCodes = Object.keys(errorTable) as ErrorCode[]

/** Errors of every operation. `not_found` and `method_not_allowed` concern addresses without an operation. */
const anywhere: readonly ErrorCode[] = ['invalid_header', 'headers_too_large', 'request_timeout', 'internal_error']
const withKey: readonly ErrorCode[] = ['invalid_api_key', 'database_unavailable']
const withQuery: readonly ErrorCode[] = ['invalid_value']
const withBody: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_value',
  'missing_parameter',
  'request_too_large',
  'unsupported_media_type',
]

/** Returns the error codes of an endpoint, in the order of the table. */
function errorsOf({ access, scope, isReport, doc }: Endpoint): ErrorCode[] {
  const codes = new Set<ErrorCode>([
    ...anywhere,
    ...(access === 'key' ? withKey : []),
    ...(access === 'loopback' ? (['not_found'] as const) : []),
    ...(doc.query ? withQuery : []),
    ...(doc.body ? withBody : []),
    ...(scope ? (['insufficient_scope'] as const) : []),
    ...(isReport ? (['rate_limit_exceeded'] as const) : []),
    ...(doc.errors ?? []),
  ])
  return errorCodes.filter(code => codes.has(code))
}

function operation(endpoint: Endpoint, path: string, schemas: Record<string, Json>): Json {
  const { doc, access } = endpoint
  return {
    operationId: doc.operationId,
    summary: doc.summary,
    ...(doc.description && { description: doc.description }),
    tags: [doc.tag],
    security: access === 'key' ? [{ apiKey: [] }] : [],
    ...nonEmpty('parameters', [
      ...pathParameters(path),
      ...parameters('query', doc.query, schemas),
      ...parameters('header', doc.headers, schemas),
    ]),
    ...(doc.body && {
      requestBody: { required: true, content: { 'application/json': media(doc.body, schemas) } },
    }),
    responses: { '200': success(doc, schemas), ...failures(errorsOf(endpoint)) },
  }
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
}

function parameters(where: 'query' | 'header', fields: ZodType | undefined, schemas: Record<string, Json>): Json[] {
  if (!fields) return []
  return Object.entries((fields as ZodObject).shape).map(([name, field]) => {
    // The input type of a parameter is always text; its output type describes the allowed values.
    const { description, examples, ...schema } = jsonSchema(field as ZodType, schemas, 'output')
    const [example] = Array.isArray(examples) ? examples : []
    return {
      name,
      in: where,
      required: !(field as ZodType).safeParse(undefined).success,
      ...(description !== undefined && { description }),
      schema,
      ...(example !== undefined && { example }),
    }
  })
}

function success(doc: EndpointDoc, schemas: Record<string, Json>): Json {
  const { contentType, schema, description } = doc.response ?? { contentType: '', description: 'Success.' }
  const content: Json = {
    ...(contentType && { [contentType]: schema ? media(schema, schemas) : {} }),
    ...(doc.stream && {
      'text/event-stream': {
        schema: { type: 'string', description: doc.stream.description },
        example: doc.stream.example,
      },
    }),
  }
  return {
    description,
    headers: {
      'x-request-id': { $ref: '#/components/headers/RequestId' },
      ...(doc.stream && generationHeaders),
    },
    ...(Object.keys(content).length > 0 && { content }),
  }
}

const header = (type: string, description: string) => ({ description, schema: { type } })

/** docs/api.md describes which responses have which of these headers. */
const generationHeaders = {
  'x-switchyard-provider': header('string', 'The kind of server that answered: `local`, `hoster` or `cloud`.'),
  'x-switchyard-hoster': header('string', 'The UUID of the hoster that answered.'),
  'x-switchyard-cost-usd': header('string', 'The amount charged, in USD, as a plain decimal. Not sent with streams.'),
  'x-switchyard-max-tokens': header('integer', 'The lower `max_tokens` that was used instead of the requested one.'),
  'idempotent-replayed': header(
    'boolean',
    '`true` when this is the answer of an earlier request with the same `Idempotency-Key`.',
  ),
  'openai-processing-ms': header('integer', 'Time until the headers were sent, in milliseconds.'),
  'x-ratelimit-limit-requests': header('integer', 'The limit per minute.'),
  'x-ratelimit-remaining-requests': header('integer', 'Remaining requests of this minute.'),
  'x-ratelimit-reset-requests': header('string', 'Time until the minute ends, such as `7s`.'),
  'x-ratelimit-limit-requests-day': header('integer', 'The limit per UTC day.'),
  'x-ratelimit-remaining-requests-day': header('integer', 'Remaining requests of this UTC day.'),
  'x-ratelimit-reset-requests-day': header('string', 'Time until the UTC day ends, such as `51427s`.'),
}

/** Returns one response per status, which lists the error codes with that status. */
function failures(codes: readonly ErrorCode[]): Json {
  const byStatus = Object.groupBy(codes, code => errorTable[code].status)
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, group = []]) => [
      status,
      {
        description: group.map(code => `\`${code}\`: ${errorTable[code].message}`).join('\n\n'),
        headers: {
          'x-request-id': { $ref: '#/components/headers/RequestId' },
          ...(group.some(code => withRetryAfter.has(code)) && {
            'retry-after': header('integer', 'Whole seconds to wait before a retry.'),
            'retry-after-ms': header(
              'integer',
              'The same wait in milliseconds; only sent for waits of up to a minute.',
            ),
          }),
          ...(group.some(code => errorTable[code].shouldRetry === false) && {
            'x-should-retry': header('boolean', '`false` when a retry cannot succeed.'),
          }),
        },
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/Error' },
            examples: Object.fromEntries(group.map(code => [code, { $ref: `#/components/examples/${code}` }])),
          },
        },
      },
    ]),
  )
}

/** Errors with Retry-After: all with status 429, 503 or 504, and some others that know the wait. */
const withRetryAfter = new Set<ErrorCode>([
  ...errorCodes.filter(code => [429, 503, 504].includes(errorTable[code].status)),
  ...(['in_flight_budget', 'idempotency_key_in_use', 'all_hosters_failed'] as const),
])

const usdFact = (description: string) => ({ type: 'number', description: `With 402, in USD: ${description}.` })

/** Set by src/admit/refusal.ts. */
const moneyFacts = {
  balance_usd: usdFact('the credit balance, including the holds of running requests'),
  available_usd: usdFact('the amount that a request may hold now'),
  needed_usd: usdFact('the smallest hold with which this request can run'),
  affordable_max_tokens: {
    type: 'integer',
    description:
      'With 402: the largest `max_tokens` with which the request would run now; 0 when the credit does not cover its prompt.',
  },
  limit_usd: usdFact('the limit that was reached'),
  used_usd: usdFact('the used part of that limit'),
  reset_at: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'With 402: when that limit resets; null when it never does.',
  },
}

/** Set by src/chat/complete-once.ts. */
const completedFacts = {
  request_id: {
    type: 'string',
    description: 'With 409 `already_completed`: the id of the request that was answered, which has a receipt.',
  },
  cost_usd: { type: 'number', description: 'With 409 `already_completed`, in USD: the charge of that request.' },
}

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'param', 'code'],
      properties: {
        message: { type: 'string', description: 'What is wrong and what to do, for people.' },
        type: { type: 'string', enum: [...new Set(Object.values(errorTable).map(row => row.type))] },
        param: { type: ['string', 'null'], description: 'The body field, query parameter or header at fault.' },
        code: { type: 'string', enum: errorCodes, description: 'What is wrong, for programs.' },
        ...moneyFacts,
        ...completedFacts,
      },
    },
  },
}

function errorExample(code: ErrorCode): Json {
  const { status, message } = errorTable[code]
  return { summary: `${status} ${code}`, description: message, value: JSON.parse(errorBody(new ApiError(code))) }
}

function media(schema: ZodType, schemas: Record<string, Json>): Json {
  const { examples, ...rest } = jsonSchema(schema, schemas, 'input')
  const named = typeof rest.$ref === 'string' ? schemas[rest.$ref.slice(COMPONENTS.length)]?.examples : examples
  const [example] = Array.isArray(named) ? named : []
  return { schema: rest, ...(example !== undefined && { example }) }
}

const COMPONENTS = '#/components/schemas/'

/** Returns the JSON schema of `schema`. Parts with an id in their metadata move to `schemas` and are referenced. */
function jsonSchema(schema: ZodType, schemas: Record<string, Json>, io: 'input' | 'output'): Json {
  const raw = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    unrepresentable: 'any',
    override({ jsonSchema: node }) {
      // Zod limits every integer to the exact range of a double, which is no rule of this API.
      if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
      if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
    },
  })
  const {
    $schema: _,
    $defs = {},
    ...own
  } = JSON.parse(JSON.stringify(raw).replaceAll('"$ref":"#/$defs/', `"$ref":"${COMPONENTS}`)) as Json & {
    $defs?: Record<string, Json>
  }
  for (const [name, { id: _id, ...definition }] of Object.entries($defs)) schemas[name] = definition
  const id = schema.meta()?.id
  if (id === undefined || own.$ref !== undefined) return own
  const { id: _id, ...definition } = own
  schemas[id] = definition
  return { $ref: `${COMPONENTS}${id}` }
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function nonEmpty(name: string, list: Json[]): Json {
  return list.length > 0 ? { [name]: list } : {}
}
