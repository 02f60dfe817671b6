import { validate } from '@scalar/openapi-parser'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { errorTable } from '../../src/base/domain/errors.ts'
import { corsHeaders } from '../../src/http/cors.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import { alertEndpoints } from '../../src/http/endpoints/alerts.ts'
import { credits, creditTransactions } from '../../src/http/endpoints/credits.ts'
import { docs } from '../../src/http/endpoints/docs.ts'
import { generationEndpoint } from '../../src/http/endpoints/generation-endpoint.ts'
import { healthz, readyz } from '../../src/http/endpoints/health.ts'
import { keyShow } from '../../src/http/endpoints/key.ts'
import { keyCreate, keyDelete, keyEdit, keysList } from '../../src/http/endpoints/keys.ts'
import { modelShow, modelsList } from '../../src/http/endpoints/models.ts'
import { openapi } from '../../src/http/endpoints/openapi.ts'
import { startPage } from '../../src/http/endpoints/start-page.ts'
import { tokenCounts } from '../../src/http/endpoints/token-counts.ts'
import { usageBreakdown, usageExport, usageSummary, usageTokens } from '../../src/http/endpoints/usage.ts'
import { usageContent, usageReceipt, usageRequests } from '../../src/http/endpoints/usage-requests.ts'
import { openapiDocument } from '../../src/http/openapi.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { messagesDialectWith } from '../../src/wire/dialects/messages/messages-dialect.ts'
import { compactDialectWith } from '../../src/wire/dialects/responses/compact-dialect.ts'
import { responsesDialectWith } from '../../src/wire/dialects/responses/responses-dialect.ts'

// Describing an endpoint calls none of its dependencies.
const none = undefined as never
const endpoints: Endpoint[] = [
  generationEndpoint(none, chatDialect),
  generationEndpoint(none, responsesDialectWith(new Map())),
  generationEndpoint(none, compactDialectWith(new Map(), none)),
  generationEndpoint(none, messagesDialectWith({ rules: new Map(), countInput: () => 0 })),
  usageSummary({ reports: none }),
  usageTokens({ reports: none }),
  usageBreakdown({ reports: none }),
  usageExport({ reports: none }),
  credits({ reports: none }),
  creditTransactions({ reports: none }),
  usageRequests({ activity: none }),
  usageReceipt({ activity: none }),
  usageContent({ view: none, addressOf: none }),
  keyShow({ reports: none }),
  keysList({ keys: none, readKeyUses: none }),
  keyCreate({ keys: none, readKeyUses: none, clock: none, addressOf: none, bodyLimitBytes: none }),
  keyEdit({ keys: none, readKeyUses: none, clock: none, addressOf: none, bodyLimitBytes: none }),
  keyDelete({ keys: none, addressOf: none }),
  ...tokenCounts({
    count: none,
    hasModel: none,
    inFlight: none,
    bodyTurns: none,
    bodyLimitBytes: none,
    compactions: none,
  }),
  modelsList({ models: none, priceLimits: none }),
  modelShow({ models: none, priceLimits: none }),
  ...alertEndpoints({ alerts: none, addressOf: none, bodyLimitBytes: none }),
  healthz(),
  readyz({ isClosing: none, pingDatabase: none }),
  openapi({ endpoints: none }),
  startPage({ publicBaseUrl: null }),
  ...docs(),
]

// biome-ignore lint/suspicious/noExplicitAny: the test walks a document whose shape it is about to check
const document = JSON.parse(JSON.stringify(openapiDocument(endpoints))) as any
const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
)

interface Operation {
  operationId: string
  summary: string
  description: string
  tags: string[]
  security: object[]
  parameters?: {
    name: string
    in: string
    required: boolean
    schema: object
    description?: string
    example?: unknown
  }[]
  requestBody?: { content: Record<string, { schema: object; example?: unknown }> }
  responses: Record<
    string,
    {
      description: string
      headers?: object
      content?: Record<string, { schema?: object; example?: unknown; examples?: object }>
    }
  >
}

describe('the OpenAPI document', () => {
  test('is valid', async () => {
    expect(await validate(structuredClone(document))).toMatchObject({ valid: true, version: '3.1' })
  })

  test('is 3.1 and has the version of the package', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(document.info.version).toBe(packageJson.version)
    expect(document.components.securitySchemes.apiKey).toMatchObject({ type: 'http', scheme: 'bearer' })
  })

  test('describes every address but the parts of the docs', () => {
    expect(Object.keys(document.paths).sort()).toEqual([
      '/',
      '/docs',
      '/healthz',
      '/openapi.json',
      '/readyz',
      '/v1/alerts',
      '/v1/alerts/{id}',
      '/v1/alerts/{id}/deliveries',
      '/v1/alerts/{id}/test',
      '/v1/chat/completions',
      '/v1/credits',
      '/v1/credits/transactions',
      '/v1/key',
      '/v1/keys',
      '/v1/keys/{id}',
      '/v1/messages',
      '/v1/messages/count_tokens',
      '/v1/models',
      '/v1/models/{id}',
      '/v1/responses',
      '/v1/responses/compact',
      '/v1/responses/input_tokens',
      '/v1/usage',
      '/v1/usage/breakdown',
      '/v1/usage/export',
      '/v1/usage/requests',
      '/v1/usage/requests/{id}',
      '/v1/usage/requests/{id}/content',
      '/v1/usage/tokens',
    ])
  })

  test('names each operation once and gives it a known tag', () => {
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    const tags = document.tags.map((tag: { name: string }) => tag.name)
    for (const { operation } of operations) {
      expect(operation.summary).not.toBe('')
      expect(tags).toContain(operation.tags[0])
    }
  })

  test('every reference resolves, and no keyword belongs to another version', () => {
    const references: string[] = []
    walk(document, node => {
      if (typeof node.$ref === 'string') references.push(node.$ref)
      for (const key of ['$defs', '$schema', '$id', 'nullable']) expect(Object.keys(node)).not.toContain(key)
    })
    expect(references.length).toBeGreaterThan(20)
    for (const reference of references) {
      const target = reference
        .replace('#/', '')
        .split('/')
        .reduce((node, key) => node?.[key], document)
      expect(target, reference).toBeDefined()
    }
  })

  test('declares each parameter of a path, and parameters as the parser accepts them', () => {
    for (const { path, operation } of operations) {
      const declared = (operation.parameters ?? []).filter(parameter => parameter.in === 'path').map(each => each.name)
      expect(declared).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(match => match[1]))
    }
    expect(document.paths['/v1/usage/tokens'].get.parameters).toMatchObject([
      {
        name: 'days',
        in: 'query',
        required: false,
        schema: { type: 'integer', minimum: 1, maximum: 365, default: 30 },
      },
      {
        name: 'interval',
        in: 'query',
        required: false,
        schema: { enum: ['hour', 'day', 'week', 'month'], default: 'day' },
      },
    ])
  })

  test('every operation and every parameter has a description', () => {
    const isDescribed = (text: string | undefined) => text !== undefined && /^[A-Z0-9`].{5,}\.$/s.test(text)
    for (const { path, method, operation } of operations) {
      const described = [operation, ...(operation.parameters ?? [])].map(({ description }) => description)
      expect(
        described.filter(text => !isDescribed(text)),
        `${method} ${path}`,
      ).toEqual([])
    }
  })

  test('every body and every answer with 200 has an example, which its schema allows', () => {
    const bodies = operations.flatMap(({ path, method, operation: { requestBody, responses } }) =>
      [...Object.entries(requestBody?.content ?? {}), ...Object.entries(responses['200']!.content ?? {})].map(
        ([type, { schema, example }]) => ({ name: `${method} ${path} ${type}`, schema, example }),
      ),
    )
    expect(bodies.length).toBeGreaterThan(operations.length)
    for (const { name, schema, example } of bodies) {
      expect(example, name).toBeDefined()
      expect(problemsOf(schema, example), name).toEqual([])
    }
  })

  test('every example of an error is an error', () => {
    for (const [code, { value }] of Object.entries<{ value: unknown }>(document.components.examples))
      expect(problemsOf({ $ref: '#/components/schemas/Error' }, value), code).toEqual([])
  })

  test('the check of examples finds a missing field and a wrong type', () => {
    const [health, chunk] = ['Health', 'ChatCompletionChunk'].map(name => ({ $ref: `#/components/schemas/${name}` }))
    expect(problemsOf(health, {})).toEqual([expect.stringContaining('must have required property')])
    const [{ choices, ...example }] = document.components.schemas.ChatCompletionChunk.examples
    expect(problemsOf(chunk, { ...example, choices: [{ ...choices[0], finish_reason: 'bored' }] })).not.toEqual([])
  })

  test('a chat answers as JSON or as a stream of chunks', () => {
    const { content } = document.paths['/v1/chat/completions'].post.responses['200']
    expect(Object.keys(content)).toEqual(['application/json', 'text/event-stream'])
    expect(content['text/event-stream'].schema).toEqual({ $ref: '#/components/schemas/ChatCompletionChunk' })
  })

  test('the API reference shows the usual fields of a chat request without a click', () => {
    // Scalar shows the required fields, then the others in this order, and folds all but the first twelve.
    const { properties, required } = document.components.schemas.ChatCompletionRequest
    const shown = new Set([...required, ...Object.keys(properties)])
    const fields = ['model', 'messages', 'stream', 'max_tokens', 'temperature', 'tools', 'tier']
    expect([...shown].slice(0, fields.length)).toEqual(fields)
  })

  test('has each error of the table as an example with its status, type and code', () => {
    expect(Object.keys(document.components.examples)).toEqual(Object.keys(errorTable))
    for (const [code, { status, type, message }] of Object.entries(errorTable)) {
      expect(document.components.examples[code]).toMatchObject({
        summary: `${status} ${code}`,
        value: { error: { code, type, message, param: null } },
      })
    }
  })

  test('an endpoint lists the errors it can answer with', () => {
    const codes = (path: string, method: string) =>
      Object.values((document.paths[path][method] as Operation).responses)
        .flatMap(response => Object.keys(response.content?.['application/json']?.examples ?? {}))
        .sort()
    expect(codes('/healthz', 'get')).toEqual([
      'headers_too_large',
      'internal_error',
      'invalid_header',
      'request_timeout',
    ])
    expect(codes('/v1/usage/tokens', 'get')).toEqual(
      expect.arrayContaining(['invalid_api_key', 'invalid_value', 'rate_limit_exceeded', 'database_unavailable']),
    )
    expect(codes('/v1/models/{id}', 'get')).toContain('model_not_found')
    expect(codes('/v1/keys/{id}', 'delete')).toEqual(expect.arrayContaining(['insufficient_scope', 'not_found']))
    expect(codes('/v1/key', 'get')).not.toContain('insufficient_scope')
    const listed = new Set(operations.flatMap(({ path, method }) => codes(path, method)))
    const unlisted = Object.keys(errorTable).filter(code => !listed.has(code))
    // Left out: errors to hosters, to people (docs/accounts.md), and for a method that an address does not support.
    // Events of WebSockets stand in docs/dialects.md.
    expect(unlisted).toEqual([
      'previous_response_not_found',
      'websocket_connection_limit_reached',
      'invalid_hoster_key',
      'invalid_operator_key',
      'not_signed_in',
      'wrong_credentials',
      'wrong_code',
      'wrong_passkey',
      'sign_in_refused',
      'role_not_allowed',
      'confirmation_required',
      'second_factor_required',
      'sign_up_closed',
      'no_account_here',
      'cross_site_request',
      'customer_not_found',
      'hoster_not_found',
      'earnings_frozen',
      'payment_not_found',
      'voucher_not_valid',
      'link_expired',
      'method_not_allowed',
      'last_owner',
      'last_operator',
      'has_role',
      'role_not_possible',
      'hoster_state_refused',
      'last_way_in',
      'identity_in_use',
      'changed_meanwhile',
      'too_many_passkeys',
      'passkeys_unavailable',
      'agent_connected',
      'mail_not_configured',
      'upgrade_required',
      'too_many_attempts',
      'price_change_too_soon',
      'sign_in_provider_unavailable',
      'payment_provider_unavailable',
    ])
  })

  test('an answer with a wait lists Retry-After among its headers', () => {
    const generating = new Set(['/v1/chat/completions', '/v1/responses', '/v1/responses/compact', '/v1/messages'])
    for (const { path, operation } of operations) {
      const telling = Object.entries(operation.responses)
        .filter(([, { headers = {} }]) => 'retry-after' in headers)
        .map(([status]) => Number(status))
      const sometimes = generating.has(path) ? [402, 409, 500] : []
      const always = Object.keys(operation.responses)
        .map(Number)
        .filter(status => [429, 503, 504].includes(status))
      expect(telling, path).toEqual([...sometimes, ...always].sort((a, b) => a - b))
    }
  })

  test('a chat lists every header that a browser may read', () => {
    const { responses } = document.paths['/v1/chat/completions'].post as Operation
    const described = new Set(Object.values(responses).flatMap(({ headers = {} }) => Object.keys(headers)))
    expect([...described].sort()).toEqual(corsHeaders['access-control-expose-headers'].split(', ').sort())
  })

  test('requires a key exactly where one is needed', () => {
    for (const { path, operation } of operations)
      expect(operation.security, path).toEqual(path.startsWith('/v1/') ? [{ apiKey: [] }] : [])
  })
})

const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
ajv.addSchema(document, 'openapi')

/** Returns why `value` does not fit a schema of the document; an empty list if it fits. */
function problemsOf(schema: object | undefined, value: unknown): string[] {
  const inDocument = JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"openapi#/'))
  const validate = ajv.compile(inDocument)
  validate(value)
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

// biome-ignore lint/suspicious/noExplicitAny: any node of a JSON document
function walk(node: any, visit: (node: Record<string, unknown>) => void): void {
  if (Array.isArray(node)) for (const each of node) walk(each, visit)
  else if (node && typeof node === 'object') {
    visit(node)
    for (const [key, value] of Object.entries(node)) if (key !== 'example' && key !== 'value') walk(value, visit)
  }
}
