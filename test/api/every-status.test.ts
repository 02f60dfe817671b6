import Fastify from 'fastify'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Caller } from '../../src/base/domain/caller.ts'
import { ApiError, type ErrorCode } from '../../src/base/domain/errors.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { standardPriceLimits } from '../../src/base/domain/price-limits.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { AllowedHosts } from '../../src/http/allowed-hosts.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import { alertEndpoints } from '../../src/http/endpoints/alerts.ts'
import { credits, creditTransactions } from '../../src/http/endpoints/credits.ts'
import { geminiModels } from '../../src/http/endpoints/gemini-models.ts'
import { geminiTokenCount } from '../../src/http/endpoints/gemini-token-count.ts'
import { generationEndpoint } from '../../src/http/endpoints/generation-endpoint.ts'
import { keyShow } from '../../src/http/endpoints/key.ts'
import { keyCreate, keyDelete, keyEdit, keysList } from '../../src/http/endpoints/keys.ts'
import { modelShow, modelsList } from '../../src/http/endpoints/models.ts'
import { tokenCounts } from '../../src/http/endpoints/token-counts.ts'
import { usageContent, usageReceipt, usageRequests } from '../../src/http/endpoints/usage-requests.ts'
import { errorFormatOf } from '../../src/http/error-format.ts'
import { isGeneration } from '../../src/http/generation-routes.ts'
import { openapiDocument } from '../../src/http/openapi.ts'
import { createServer } from '../../src/http/server.ts'
import { hashApiKey } from '../../src/identity/auth/api-key.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { completionsDialectWith } from '../../src/wire/dialects/completions/completions-dialect.ts'
import { embeddingsDialectWith } from '../../src/wire/dialects/embeddings/embeddings-dialect.ts'
import { geminiDialectsWith } from '../../src/wire/dialects/gemini/gemini-dialect.ts'
import { geminiEmbeddingsDialects } from '../../src/wire/dialects/gemini/gemini-embeddings-dialect.ts'
import { messagesDialectWith } from '../../src/wire/dialects/messages/messages-dialect.ts'
import { rerankDialectWith } from '../../src/wire/dialects/rerank/rerank-dialect.ts'
import { compactDialectWith } from '../../src/wire/dialects/responses/compact-dialect.ts'
import { responsesDialectWith } from '../../src/wire/dialects/responses/responses-dialect.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { answer, type Behaviour, stall, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Stands in for every dependency and throws on each call, like a bug. The endpoints built on it are also read for their documentation.
const broken = new Proxy({} as never, {
  get: () => () => {
    throw new Error('an internal secret')
  },
})
const throwing = (): never => {
  throw new Error('an internal secret')
}
const brokenDeps = { bodyLimitBytes: 1_000, clock: systemClock, addressOf: () => '' }
const brokenCounts = {
  bodyLimitBytes: 1_000,
  count: broken,
  hasModel: broken,
  inFlight: broken,
  bodyTurns: broken,
  compactions: broken,
}
const endpoints: readonly Endpoint[] = [
  usageRequests({ activity: broken }),
  usageReceipt({ activity: broken }),
  usageContent({ view: broken, addressOf: () => '' }),
  credits({ reports: broken }),
  creditTransactions({ reports: broken }),
  keyShow({ reports: broken }),
  keysList({ keys: broken, readKeyUses: broken }),
  keyCreate({ keys: broken, readKeyUses: broken, ...brokenDeps }),
  keyEdit({ keys: broken, readKeyUses: broken, ...brokenDeps }),
  keyDelete({ keys: broken, ...brokenDeps }),
  ...alertEndpoints({ alerts: broken, ...brokenDeps }),
  modelsList({ models: throwing, priceLimits: standardPriceLimits }),
  modelShow({ models: throwing, priceLimits: standardPriceLimits }),
  ...geminiModels({ models: throwing }),
  ...tokenCounts(brokenCounts),
  geminiTokenCount(brokenCounts),
  ...[
    chatDialect,
    responsesDialectWith(new Map()),
    compactDialectWith(new Map(), broken),
    messagesDialectWith({ rules: new Map(), countInput: () => 0 }),
    completionsDialectWith(),
    embeddingsDialectWith(),
    rerankDialectWith(),
    geminiDialectsWith(new Map())[0],
    ...geminiEmbeddingsDialects,
  ].map(dialect =>
    generationEndpoint(
      {
        ...brokenDeps,
        ...{
          complete: broken,
          completeOnce: broken,
          quote: broken,
          windows: broken,
          onRefused: broken,
          onError: () => {},
          accessLog: null,
          telemetry: null,
        },
        log: { error() {}, debug() {} },
        authenticate: () => {
          throw new Error('an internal secret')
        },
        inFlight: { isClosed: false } as never,
        bodyTurns: broken,
        allowedHosts: new AllowedHosts([]),
        invalidRequests: { refuseExcess() {}, note() {} },
        pingMs: 1_000,
      },
      dialect,
    ),
  ),
]

/** Each endpoint with each status that the OpenAPI document declares for it, and the error codes of that status. */
const declared = endpoints.flatMap(endpoint => {
  const path = endpoint.doc.openapiPath ?? endpoint.path
  // biome-ignore lint/suspicious/noExplicitAny: the document has no type
  const { paths } = openapiDocument([endpoint]) as any
  const responses = paths[path][endpoint.method.toLowerCase()].responses as Record<string, { description: string }>
  return Object.entries(responses).map(([status, { description }]) => ({
    name: `${endpoint.method} ${path}`,
    status: Number(status),
    codes: [...description.matchAll(/^`(\w+)`: /gm)].map(([, code]) => code as ErrorCode),
    endpoint,
  }))
})

const upstream = useUpstream()
const everything: Offer['features'] = new Set(['tools', 'completions', 'embeddings', 'rerank'])
/** Answers a request of any task. */
const rightAnswer: Behaviour = (request, response) => {
  const result = { results: [{ index: 0, relevance_score: 0.5 }], usage: { total_tokens: 3 } }
  const behaviours: Record<string, Behaviour> = { '/v1/embeddings': embeddings(), '/v1/rerank': status(200, result) }
  return (behaviours[request.path] ?? answer())(request, response)
}
const gateway = useTestApp(() => ({
  yaml: 'reports: { requests_per_minute: 10000 }\nserver: { body_limit_bytes: 4194304 }\ncontent: { allow_recording: true }',
  offers: ['test-model', 'other-model'].map(modelId => testOffer(upstream.baseUrl, { modelId, features: everything })),
}))
/** Allows one report per minute, and its minute never ends. */
const strict = useTestApp({
  yaml: 'reports: { requests_per_minute: 1 }',
  clock: { epochMs: () => Date.UTC(2026, 10, 21, 9, 30, 15), monotonicMs: () => performance.now() },
})
const customer = useCustomer(gateway, { tier: 'scale', key: { scopes: ['manage'], recordsContent: true } })
/** A key of `customer` without the scope manage and with one allowed model. */
let plain: TestCustomer
/** Has a key that is paused. */
let paused: TestCustomer
/** A request, a key and an alert rule of `customer`, and of another customer. */
let mine: Ids
let theirs: Ids

interface Ids {
  readonly requests: string
  readonly keys: string
  readonly alerts: string
  readonly models: string
}

const hello = { model: 'test-model', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }
const hi = { parts: [{ text: 'Hello' }] }
const hook = { kind: 'daily_spend', channel: 'webhook', target: 'https://hooks.acme.dev/x' }

beforeAll(async () => {
  upstream.always(rightAnswer)
  plain = await gateway.anotherKey(customer, { allowedModels: ['test-model'] })
  paused = await gateway.anotherKey(customer)
  await gateway.database.pool.query("UPDATE api_key SET paused_at = now() WHERE key_hash = decode($1, 'base64')", [
    hashApiKey(paused.key),
  ])
  mine = await idsOf(customer)
  await vi.waitFor(async () => {
    const { rows } = await gateway.database.pool.query('SELECT FROM request_content WHERE request_id = $1', [
      mine.requests,
    ])
    expect(rows).toHaveLength(1)
  }, WAIT_OPTIONS)
  theirs = { ...(await idsOf(await manager())), models: 'unknown' }
})

const manager = (app = gateway) => app.customer({ tier: 'scale', key: { scopes: ['manage'] } })

async function idsOf(owner: TestCustomer): Promise<Ids> {
  const made = async (path: string, body: object) => {
    const { json } = await send('POST', path, { caller: owner, body })
    return json.id as string
  }
  const { headers } = await send('POST', '/v1/chat/completions', { caller: owner, body: hello })
  const requests = headers.get('x-request-id')!
  const [keys, alerts] = [await made('/v1/keys', { name: 'other' }), await made('/v1/alerts', hook)]
  return { requests, keys, alerts, models: 'test-model' }
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the body of any endpoint
  readonly json: any
}

interface Sending {
  readonly app?: Pick<TestApp, 'url'>
  readonly caller?: TestCustomer
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

async function send(method: string, path: string, sending: Sending = {}): Promise<Answer> {
  const { app = gateway, caller = customer, body, headers } = sending
  const response = await fetch(app.url + path, {
    method,
    headers: {
      authorization: `Bearer ${caller.key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, json: await response.json() }
}

async function sendRaw(...[url, ...bytes]: Parameters<typeof rawRequest>): Promise<Answer> {
  const { status, headers, body } = await rawRequest(url, ...bytes)
  return { status, headers: new Headers(headers), json: JSON.parse(body) }
}

/** A request that the endpoint answers with 200. */
function right({ method, path }: Endpoint, ids = mine): { method: string; path: string; body?: object } {
  const [, , kind] = path.split('/')
  const id = { usage: ids.requests, keys: ids.keys, models: ids.models }[kind!] ?? ids.alerts
  const ofModel = method === 'POST' && kind === 'models' ? `${id}:countTokens` : id
  const address = { method, path: path.replace(/:id|\*/, ofModel).replace('{model}', 'test-model') }
  const body = {
    '/v1/keys': { name: 'a bot' },
    '/v1/alerts': hook,
    '/v1/chat/completions': hello,
    '/v1/completions': { model: 'test-model', prompt: 'Hello' },
    '/v1/rerank': { model: 'test-model', query: 'Hello', documents: ['Hi'] },
    '/v1/responses': { model: 'test-model', max_output_tokens: 10, input: 'Hello' },
    '/v1/responses/compact': { model: 'test-model', max_output_tokens: 10, input: 'Hello' },
    '/v1/messages': hello,
    '/v1/messages/count_tokens': { ...hello, model: ids.models },
    '/v1/responses/input_tokens': { model: ids.models, input: 'Hello' },
    '/v1beta/models/*': { contents: [hi] },
    '/v1/embeddings': { model: 'test-model', input: 'Hello' },
    '/v1beta/models/{model}:generateContent': { contents: [hi], generationConfig: { maxOutputTokens: 10 } },
    '/v1beta/models/{model}:embedContent': { content: hi },
    '/v1beta/models/{model}:batchEmbedContents': { requests: [{ content: hi }] },
  }[path]
  if (method === 'PATCH') return { ...address, body: { name: 'another bot' } }
  return method === 'POST' && body !== undefined ? { ...address, body } : address
}

function ask(endpoint: Endpoint, sending: Sending = {}, ids = mine): Promise<Answer> {
  const { method, path, body } = right(endpoint, ids)
  return send(method, path, { ...(body !== undefined && { body }), ...sending })
}

/** Queries with an invalid value. */
function wrongQueries({ doc }: Endpoint): string[] {
  return doc.tag === 'Models' ? ['pageSize=0', 'pageSize=x'] : ['limit=0', 'cursor=x']
}

/** Sends a request to a generation endpoint, with more fields. */
function generate(endpoint: Endpoint, { model = 'test-model', ...body }: Json, sending: Sending = {}): Promise<Answer> {
  const isInPath = endpoint.path.includes('{model}')
  const whole = { ...right(endpoint).body, ...(!isInPath && { model }), ...body }
  return send('POST', endpoint.path.replace('{model}', model), { body: whole, ...sending })
}
const hasClamp = ({ doc }: Endpoint) => doc.tag !== 'Embeddings'

// biome-ignore lint/suspicious/noExplicitAny: the body of any endpoint
type Json = any

/** The code of an error: at Google the reason of its first detail, besides the status as a number. */
const codeOf = ({ error }: Json): string | undefined => error?.details?.[0].reason ?? error?.code

/** The type of an error in the form of the endpoint. */
function typeOf({ path }: Endpoint, code: ErrorCode): string {
  if (path.startsWith('/v1/responses') && code === 'daily_limit_exceeded') return 'usage_limit_reached'
  const { body } = errorFormatOf({ method: 'POST', url: path }, 'openai')
  return JSON.parse(body(new ApiError(code), 'id')).error.type
}

let names = 0
const onceAs = (key = `order-${++names}`) => ({ headers: { 'idempotency-key': key } })

/** Per status: sends requests that the endpoint must answer with it, in every known way. */
const provocations: Record<number, (endpoint: Endpoint) => Promise<Answer[]>> = {
  200: async endpoint => {
    if (isGeneration(endpoint))
      return Promise.all([
        generate(endpoint, {}),
        generate(endpoint, {}, onceAs()),
        generate(endpoint, { dry_run: true }),
        generate(endpoint, { max_cost_usd: 0.001 }),
        generate(endpoint, { on_insufficient: 'clamp' }),
      ])
    // A DELETE gets new ids, which no other test needs.
    return [await ask(endpoint, {}, endpoint.method === 'DELETE' ? await idsOf(customer) : mine)]
  },
  400: async endpoint => {
    const { method, path, body } = right(endpoint)
    const noHost = `${method} ${path} HTTP/1.1\r\nauthorization: Bearer ${customer.key}\r\ncontent-length: 0\r\n\r\n`
    return Promise.all([
      sendRaw(gateway.url, noHost),
      ...(endpoint.doc.query ? wrongQueries(endpoint).map(query => send(method, `${path}?${query}`)) : []),
      ...(body ? [[], '{', {}].map(wrong => send(method, path, { body: wrong })) : []),
      ...(isGeneration(endpoint)
        ? [
            generate(endpoint, { max_cost_usd: 1e-9 }),
            generate(endpoint, { max_cost_usd: 0 }),
            ...(hasClamp(endpoint) ? [generate(endpoint, { on_insufficient: 'shrink' })] : []),
            generate(endpoint, { dry_run: 1 }),
            generate(endpoint, {}, onceAs(' '.repeat(300))),
          ]
        : []),
    ])
  },
  401: endpoint => Promise.all(['', `${customer.key}x`].map(key => ask(endpoint, { caller: { ...customer, key } }))),
  402: async endpoint => {
    const poor = await gateway.customer({ creditNanos: 1_000n })
    const limited = await gateway.customer({ key: { limit: { limitNanos: 1_000n, reset: 'daily' } } })
    const capped = await gateway.customer({ limits: { dailySpendCapNanos: 1_000n } })
    const refused = [poor, limited, capped].map(caller => generate(endpoint, {}, { caller }))
    return Promise.all([
      ...refused,
      generate(endpoint, { on_insufficient: 'clamp' }, { caller: poor }),
      generate(endpoint, {}, { caller: poor, ...onceAs() }),
    ])
  },
  403: endpoint =>
    Promise.all(
      isGeneration(endpoint)
        ? [
            ...[{}, { dry_run: true }].map(body =>
              generate(endpoint, { ...body, model: 'other-model' }, { caller: plain }),
            ),
            generate(endpoint, {}, { caller: paused }),
          ]
        : [
            ...(endpoint.scope !== undefined || endpoint.path.includes('/models/')
              ? [ask(endpoint, { caller: plain }, { ...mine, models: 'other-model' })]
              : []),
            ask(endpoint, { caller: paused }),
          ],
    ),
  404: endpoint => {
    if (isGeneration(endpoint))
      return Promise.all([{}, { dry_run: true }].map(body => generate(endpoint, { ...body, model: 'unknown' })))
    const unused = '00000000-0000-4000-8000-000000000000'
    const unknown = [unused, 'x', '%00'].map(id => ({ requests: id, keys: id, alerts: id, models: id }))
    return Promise.all([theirs, ...unknown].map(ids => ask(endpoint, {}, ids)))
  },
  408: endpoint => slow.get(endpoint)!.timedOut,
  409: async endpoint => {
    const [private_, running] = [onceAs(), onceAs()]
    await generate(endpoint, { privacy_mode: true }, private_)
    const leaving = new AbortController()
    const sentBefore = upstream.requests.length
    upstream.respondWith(stall())
    const first = fetch(gateway.url + right(endpoint).path, {
      method: 'POST',
      headers: { ...running.headers, authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(right(endpoint).body),
      signal: leaving.signal,
    }).catch(() => {})
    await expect.poll(() => upstream.requests.length).toBe(sentBefore + 1)
    const refused = await Promise.all([
      generate(endpoint, { privacy_mode: true }, private_),
      generate(endpoint, {}, running),
    ])
    leaving.abort()
    await first
    return refused
  },
  413: endpoint => Promise.all([ask(endpoint, { body: `{"name":"${'x'.repeat(4_200_000)}"}` })]),
  415: endpoint => Promise.all([ask(endpoint, { headers: { 'content-type': 'text/plain' } })]),
  422: async endpoint => {
    const key = onceAs()
    await generate(endpoint, {}, key)
    return [await generate(endpoint, { seed: 1 }, key)]
  },
  429: async endpoint => {
    if (isGeneration(endpoint)) {
      const limits = [{ requestsPerMinute: 1 }, { requestsPerDay: 1 }]
      const spent = await Promise.all(limits.map(limits => gateway.customer({ limits })))
      await Promise.all(spent.map(caller => generate(endpoint, {}, { caller })))
      return Promise.all(
        spent.flatMap(caller => [
          generate(endpoint, {}, { caller }),
          generate(endpoint, { dry_run: true }, { caller }),
          generate(endpoint, {}, { caller, ...onceAs() }),
        ]),
      )
    }
    const caller = await manager(strict)
    expect((await send('GET', '/v1/key', { app: strict, caller })).status).toBe(200)
    return [await ask(endpoint, { app: strict, caller })]
  },
  431: async endpoint => {
    const { method, path } = right(endpoint)
    return [await sendRaw(gateway.url, `${method} ${path} HTTP/1.1\r\nhost: x\r\nx-big: ${'x'.repeat(17_000)}\r\n\r\n`)]
  },
  500: async endpoint => {
    const refused = [await ask(endpoint, { app: buggy })]
    if (!isGeneration(endpoint)) return refused
    upstream.respondWith(status(500), status(500))
    return [...refused, await generate(endpoint, {}), await generate(endpoint, {}, onceAs())]
  },
  503: endpoint => slow.get(endpoint)!.refused,
  504: async endpoint => {
    const app = await startTestApp({
      mayBeCutOff: true,
      offers: [testOffer(upstream.baseUrl, { features: everything })],
      timeouts: { commitWaitMs: 500 },
    })
    try {
      const caller = await app.customer()
      const [asked, cutOff] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      upstream.respondWith(async (request, response) => {
        asked.resolve()
        await cutOff.promise
        await rightAnswer(request, response)
      })
      const refused = generate(endpoint, {}, { app, caller })
      await asked.promise
      const restore = app.cutOff()
      cutOff.resolve()
      const answers = [await refused]
      restore()
      return answers
    } finally {
      await app.close()
    }
  },
}

/** Requests that take seconds, sent for all endpoints at once. */
const slow = new Map<Endpoint, { timedOut: Promise<Answer[]>; refused: Promise<Answer[]> }>()
let withShortTimeouts: TestApp
let buggy: { url: string; close(): Promise<void> }
let withoutDatabase: TestApp
let cachedCustomer: TestCustomer
let unknownCustomer: TestCustomer
let restore: () => void

beforeAll(async () => {
  withShortTimeouts = await startTestApp()
  withShortTimeouts.app.server.server.headersTimeout = 1
  const caller = { access: { mayManage: true } } as Caller
  const server = createServer({
    endpoints,
    guard: {
      for: () => async request => {
        request.caller = caller
      },
    },
    log: Fastify({ logger: false }).log,
    allowedHosts: new AllowedHosts([]),
    connectionsMax: 100,
    slowReaderMs: 30_000,
  })
  buggy = { url: await server.listen({ host: '127.0.0.1', port: 0 }), close: () => server.close() }
  withoutDatabase = await startTestApp({ mayBeCutOff: true, offers: [testOffer(upstream.baseUrl)] })
  cachedCustomer = await manager(withoutDatabase)
  unknownCustomer = await manager(withoutDatabase)
  expect((await send('GET', '/v1/key', { app: withoutDatabase, caller: cachedCustomer })).status).toBe(200)
  restore = withoutDatabase.cutOff()
  for (const endpoint of endpoints) {
    const { method, path } = right(endpoint)
    slow.set(endpoint, {
      timedOut: Promise.all([sendRaw(withShortTimeouts.url, `${method} ${path} HTTP/1.1\r\nhost: x\r\n`)]),
      // Models and counts need no database once the key is known.
      refused: Promise.all([
        ask(endpoint, {
          app: withoutDatabase,
          caller: path.includes('tokens') || path.includes('models') ? unknownCustomer : cachedCustomer,
        }),
      ]),
    })
  }
})
afterAll(async () => {
  restore?.()
  await withoutDatabase?.close()
  await buggy?.close()
  await withShortTimeouts?.close()
})

test.each(declared)('$name: $status', async ({ status, codes, endpoint }) => {
  const answers = await provocations[status]!(endpoint)
  expect(answers).not.toEqual([])
  for (const { status: answered, headers, json } of answers) {
    expect([answered, codeOf(json)]).toEqual([status, status === 200 ? undefined : expect.any(String)])
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    if (status === 200) {
      expect(endpoint.doc.response.schema.parse(json)).toEqual(json)
      continue
    }
    const { error } = json
    const code = codeOf(json) as ErrorCode
    expect(codes).toContain(code)
    if (typeof error.code === 'number') expect(error.code).toBe(status)
    expect(error.type).toBe(typeOf(endpoint, code))
    expect(error.message.length).toBeGreaterThan(20)
    expect(JSON.stringify(json)).not.toContain('an internal secret')
    const isWorthWaiting = [429, 503, 504].includes(status) || code === 'idempotency_key_in_use'
    expect([code, headers.has('retry-after')]).toEqual([code, isWorthWaiting])
  }
})
