import { type ZodObject, type ZodType, z } from 'zod'
import packageJson from '../../package.json' with { type: 'json' }
import { errorBody } from '../dialects/error-body.ts'
import { ApiError, type ErrorCode, errorTable } from '../domain/errors.ts'
import type { Endpoint, EndpointDoc } from './endpoint.ts'

type Json = Record<string, unknown>

/** Describes the endpoints in OpenAPI 3.1, from the very schemas that parse their requests. */
export function openapiDocument(endpoints: readonly Endpoint[]): Json {
  const schemas: Record<string, Json> = { Error: errorSchema }
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    // Scripts belong to a page; nobody calls them.
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
        RequestId: { description: 'Id of this request, for questions about it.', schema: { type: 'string' } },
      },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer sk-sy-...`' },
      },
    },
  }
}

const INTRODUCTION = `Text generation for prepaid credit, compatible with OpenAI's API. Point any OpenAI SDK at \`/v1\` of this gateway.

Every error has the shape \`{"error": {"message", "type", "param", "code"}}\`. Money is in USD and exact: a request costs its tokens at the price of the server that answered, and nothing when nobody answered. Days, weeks and months are UTC.`

const tags: Record<EndpointDoc['tag'], string> = {
  Chat: 'Generate text.',
  Usage: 'What was used and what it cost. These requests are free and do not count against the chat limits.',
  Keys: 'What a key may do, and the keys of a customer. These requests are free and do not count against the chat limits.',
  Models: 'What can be asked for.',
  Alerts: 'Be told of a low balance, of the daily cap, of keys at their limit and of large charges.',
  Service: 'About the gateway itself.',
}

const errorCodes = Object.keys(errorTable) as ErrorCode[]

/** Besides `not_found` and `method_not_allowed`, which concern no operation that is described. */
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

/** The codes an endpoint can answer with. */
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
    // The input side of a parameter is text; what the text may mean is on the output side.
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
  const { contentType, schema, description } = doc.response ?? { contentType: '', description: 'Done.' }
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

/** docs/api.md says on which answers each of them is. */
const generationHeaders = {
  'x-switchyard-provider': header('string', 'Who served it: `local`, `hoster` or `cloud`.'),
  'x-switchyard-hoster': header('string', 'The UUID of the hoster that served it.'),
  'x-switchyard-cost-usd': header('string', 'Not on streams: what it was charged, as a plain decimal.'),
  'x-switchyard-max-tokens': header('integer', 'What `max_tokens` was lowered to, where it was.'),
  'idempotent-replayed': header('boolean', 'The answer of an earlier request with this `Idempotency-Key`.'),
  'openai-processing-ms': header('integer', 'Milliseconds until the headers were sent.'),
  'x-ratelimit-limit-requests': header('integer', 'The limit of the minute.'),
  'x-ratelimit-remaining-requests': header('integer', 'What is left of it.'),
  'x-ratelimit-reset-requests': header('string', 'When the minute ends, as `7s`.'),
  'x-ratelimit-limit-requests-day': header('integer', 'The limit of the UTC day.'),
  'x-ratelimit-remaining-requests-day': header('integer', 'What is left of it.'),
  'x-ratelimit-reset-requests-day': header('string', 'When the day ends, as `51427s`.'),
}

/** One response per status, listing each code that has it. */
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
            'retry-after': header('integer', 'Whole seconds until a retry makes sense.'),
            'retry-after-ms': header('integer', 'The same in milliseconds, up to a minute.'),
          }),
          ...(group.some(code => errorTable[code].shouldRetry === false) && {
            'x-should-retry': header('boolean', '`false` where a retry does not help.'),
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

/** Those that tell a wait: each 429, 503 and 504, and some that know when it helps. */
const withRetryAfter = new Set<ErrorCode>([
  ...errorCodes.filter(code => [429, 503, 504].includes(errorTable[code].status)),
  ...(['in_flight_budget', 'idempotency_key_in_use', 'all_hosters_failed'] as const),
])

const usdFact = (description: string) => ({ type: 'number', description: `With 402, USD: ${description}.` })

/** src/admit/refusal.ts says them. */
const moneyFacts = {
  balance_usd: usdFact('the credit there is; holds of running requests are part of it'),
  available_usd: usdFact('what a request may hold now'),
  needed_usd: usdFact('the least that this request has to hold'),
  affordable_max_tokens: {
    type: 'integer',
    description:
      'With 402: the largest `max_tokens` with which the request would run now; 0 when its prompt is not covered.',
  },
  limit_usd: usdFact('the limit that is reached'),
  used_usd: usdFact('how much of that limit is used'),
  reset_at: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'With 402: when that limit starts again; null when it never does.',
  },
}

/** src/chat/complete-once.ts says them. */
const completedFacts = {
  request_id: {
    type: 'string',
    description: 'With 409 `already_completed`: the request that was answered; it has a receipt.',
  },
  cost_usd: { type: 'number', description: 'With 409 `already_completed`, USD: what that request was charged.' },
}

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'param', 'code'],
      properties: {
        message: { type: 'string', description: 'What was wrong and what to do, for a person.' },
        type: { type: 'string', enum: [...new Set(Object.values(errorTable).map(row => row.type))] },
        param: { type: ['string', 'null'], description: 'The body field, query parameter or header at fault.' },
        code: { type: 'string', enum: errorCodes, description: 'What was wrong, for a program.' },
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

/** The JSON schema of `schema`. Parts that have an id in their metadata move to `schemas` and are referred to. */
function jsonSchema(schema: ZodType, schemas: Record<string, Json>, io: 'input' | 'output'): Json {
  const raw = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    unrepresentable: 'any',
    override({ jsonSchema: node }) {
      // Zod bounds every integer by what a double can count to; that is no rule of this API.
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
