import type { ZodObject, ZodType } from 'zod'
import packageJson from '../../package.json' with { type: 'json' }
import type { Endpoint, EndpointDoc } from './endpoint.ts'
import { isGeneration } from './generation-routes.ts'
import { errorExamples, errorResponses, errorSchema } from './openapi-errors.ts'
import { header, type Json, jsonSchema, media } from './openapi-schema.ts'

/** Returns the OpenAPI 3.1 document of the endpoints, generated from the schemas that parse their requests. */
export function openapiDocument(endpoints: readonly Endpoint[]): Json {
  const schemas: Record<string, Json> = { Error: errorSchema }
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    if (endpoint.doc.isHidden) continue
    const path = endpoint.doc.openapiPath ?? endpoint.path
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, schemas) }
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
      examples: errorExamples(),
      headers: {
        RequestId: {
          description: 'The id of this request. Quote it in support questions.',
          schema: { type: 'string' },
        },
      },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer sk-sy-...`' },
        operatorKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'A key of an operator: `Authorization: Bearer ok-sy-...`',
        },
        hosterKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'A key of a hoster: `Authorization: Bearer hk-sy-...`',
        },
      },
    },
  }
}

const INTRODUCTION = `Text generation paid from prepaid credit, compatible with the OpenAI API. Set the base URL of any OpenAI SDK to \`/v1\` of this gateway.

Every error has the shape \`{"error": {"message", "type", "param", "code"}}\`. Amounts of money are exact and in USD. A request costs its tokens at the price of the server that answered; it is free when no server answered. Days, weeks and months are in UTC.`

const tags: Record<EndpointDoc['tag'], string> = {
  Chat: 'Generate text.',
  Embeddings: 'Turn texts into vectors, and order texts by relevance.',
  Usage: 'Usage, costs and credit. These requests are free and do not count against the request limits of generation.',
  Keys: 'Manage API keys. These requests are free and do not count against the request limits of generation.',
  Models: 'The available models.',
  Hosters: 'For third parties that rent out models here: their models, prices, keys and state.',
  Alerts: 'Get notified of a low balance, the daily cap, keys at their limit, and large charges.',
  Operators: 'For operators of the gateway and their programs: customers, money, hosters and the installation.',
  Service: 'The state and documentation of the gateway.',
}

/** The security scheme of each access that needs a key. */
const schemes: Partial<Record<Endpoint['access'], string>> = {
  key: 'apiKey',
  hoster_key: 'hosterKey',
  operator_key: 'operatorKey',
}

function operation(endpoint: Endpoint, schemas: Record<string, Json>): Json {
  const { doc, access } = endpoint
  return {
    operationId: doc.operationId,
    summary: doc.summary,
    description: doc.description,
    tags: [doc.tag],
    security: schemes[access] === undefined ? [] : [{ [schemes[access]]: [] }],
    ...nonEmpty('parameters', [
      ...parameters('path', doc.pathParameters, schemas),
      ...parameters('query', doc.query, schemas),
      ...parameters('header', doc.headers, schemas),
    ]),
    ...(doc.body && {
      requestBody: { required: true, content: { 'application/json': media(doc.body, schemas) } },
    }),
    responses: { [doc.response.status ?? 200]: success(endpoint, schemas), ...errorResponses(endpoint, schemas) },
  }
}

function parameters(
  location: 'path' | 'query' | 'header',
  fields: ZodType | undefined,
  schemas: Record<string, Json>,
): Json[] {
  if (!fields) return []
  return Object.entries((fields as ZodObject).shape).map(([name, field]) => {
    // The input type of a parameter is always text; its output type describes the allowed values.
    const { description, examples, ...schema } = jsonSchema(field as ZodType, schemas, 'output')
    const [example] = Array.isArray(examples) ? examples : []
    return {
      name,
      in: location,
      required: !(field as ZodType).safeParse(undefined).success,
      ...(description !== undefined && { description }),
      schema,
      ...(example !== undefined && { example }),
    }
  })
}

function success(endpoint: Endpoint, schemas: Record<string, Json>): Json {
  const { description, alternatives = [], ...main } = endpoint.doc.response
  return {
    description,
    headers: {
      'x-request-id': { $ref: '#/components/headers/RequestId' },
      ...(isGeneration(endpoint) && generationHeaders),
    },
    content: Object.fromEntries(
      [main, ...alternatives].map(({ contentType, schema }) => [contentType, media(schema, schemas)]),
    ),
  }
}

/** docs/api.md describes which responses have which of these headers. */
const generationHeaders = {
  'x-switchyard-provider': header('string', 'The kind of server that answered: `local`, `hoster` or `cloud`.'),
  'x-switchyard-hoster': header('string', 'The UUID of the hoster that answered.'),
  'x-switchyard-cost-usd': header('string', 'The amount charged, in USD, as a plain decimal. Not sent with streams.'),
  'x-switchyard-max-tokens': header('integer', 'The lower `max_tokens` that was used instead of the requested one.'),
  'x-switchyard-dropped-fields': header('string', 'The body fields that the server did not get, separated by commas.'),
  'x-switchyard-changed-fields': header(
    'string',
    'The body fields that the server got with other values, because its vendor refuses those of the request, separated by commas.',
  ),
  'x-switchyard-schema-violation': header(
    'string',
    'Where the answer breaks the schema of the request, such as `#/tags maxItems`, if the server got another schema. Not sent with streams.',
  ),
  'x-switchyard-trace-id': header('string', 'The id of its OpenTelemetry trace, if it has one.'),
  'idempotent-replayed': header(
    'boolean',
    '`true` when this is the answer of an earlier request with the same `Idempotency-Key`.',
  ),
  'openai-processing-ms': header('integer', 'Time until the headers were sent, in milliseconds.'),
  'x-ratelimit-limit-requests': header('integer', 'The limit per minute.'),
  'x-ratelimit-remaining-requests': header('integer', 'The remaining requests of this minute.'),
  'x-ratelimit-reset-requests': header('string', 'Time until the minute ends, such as `7s`.'),
  'x-ratelimit-limit-requests-day': header('integer', 'The limit per UTC day.'),
  'x-ratelimit-remaining-requests-day': header('integer', 'The remaining requests of this UTC day.'),
  'x-ratelimit-reset-requests-day': header('string', 'Time until the UTC day ends, such as `51427s`.'),
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function nonEmpty(name: string, list: Json[]): Json {
  return list.length > 0 ? { [name]: list } : {}
}
