import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { features } from '../../src/base/domain/chat-job.ts'
import { testOffer } from '../harness/app.ts'
import { rounds } from '../harness/rounds.ts'
import { type JsonSchema, schemaArbitrary } from '../harness/schema-arbitrary.ts'
import { textCompletion } from '../harness/scripted-completions.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { answer, type Behaviour, status, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A local server that can do everything, costs no more than the lowest price limit of a request, and never fails: then no request may get a 5xx.
const upstream = useUpstream()
const price = { inputPicoPerToken: 1n, outputPicoPerToken: 1n }
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl, { features: new Set(features), price })] }))
const customer = useCustomer(gateway, { tier: 'scale', creditNanos: 1_000_000_000_000_000n })

interface Operation {
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: JsonSchema }[]
  readonly requestBody: { readonly content: { readonly 'application/json': { readonly schema: JsonSchema } } }
  readonly responses: Readonly<Record<string, { readonly headers?: object }>>
}
interface OpenApi {
  readonly paths: Readonly<Record<string, { readonly post?: Operation }>>
}

let openapi: OpenApi
/** A correct answer at each path below `/v1/`; that of chat at any other. */
const behaviours: Record<string, Behaviour> = {
  completions: textCompletion(),
  embeddings: embeddings(),
  rerank(request, response) {
    const documents = request.body.documents as unknown[]
    const results = documents.map((_, index) => ({ index, relevance_score: 1 / (index + 1) }))
    return status(200, { results, usage: usageOf(5, 0) })(request, response)
  },
}
const ajv = new Ajv2020({ strict: false, formats: { uuid: true, 'date-time': true } })

beforeAll(async () => {
  upstream.always((request, response) => {
    const behaviour = behaviours[request.path.replace('/v1/', '')] ?? answer()
    return behaviour(request, response)
  })
  openapi = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenApi
  ajv.addSchema({ ...openapi, $id: 'openapi' })
})

const resolve = (ref: string) => at(ref.replace('#/', '').split('/')) as JsonSchema
const at = (steps: readonly string[]) =>
  steps.reduce<unknown>((node, step) => (node as Record<string, unknown> | undefined)?.[step], openapi)

/** Returns the problems of an answer with the schema that the document has for its status and type. */
function problemsOf(path: string, status: number, contentType: string, value: unknown): unknown {
  const steps = ['paths', path, 'post', 'responses', String(status)]
  const response = at(steps) as { $ref?: string } | undefined
  expect(response, `${path} documents no ${status}`).toBeDefined()
  const pointer = [...steps, 'content', contentType, 'schema'].map(step => step.replaceAll('/', '~1')).join('/')
  const check = ajv.getSchema(`openapi#/${pointer}`)
  expect(check, `${path} documents no ${contentType} for ${status}`).toBeDefined()
  return check!(value) ? null : { value, errors: check!.errors }
}

/** A model that exists, mostly. */
const model = fc.oneof(
  { arbitrary: fc.constant('test-model'), weight: 20 },
  { arbitrary: fc.constantFrom('auto', 'unknown', ''), weight: 1 },
)
const modelList = fc.array(fc.constantFrom('test-model', 'auto', 'unknown'), { maxLength: 3 })
const known = { model, fallback_models: modelList }
const contents = fc.array(
  fc.record({
    role: fc.constantFrom('user', 'model'),
    parts: fc.array(fc.record({ text: fc.string({ maxLength: 9 }) }), { minLength: 1, maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 3 },
)
/** What a schema of one endpoint leaves open. */
const knownAt: Record<string, Record<string, fc.Arbitrary<unknown>>> = {
  '/v1/messages': {
    messages: fc.array(
      fc.record({ role: fc.constantFrom('user', 'assistant'), content: fc.string({ minLength: 1 }) }),
      {
        minLength: 1,
        maxLength: 3,
      },
    ),
  },
  '/v1beta/models/{model}:generateContent': { contents },
  '/v1beta/models/{model}:streamGenerateContent': { contents },
}

/** Generates routing headers as text: some requests have up to two, mostly valid ones. */
function headersOf({ parameters }: Operation): fc.Arbitrary<Record<string, string>> {
  const texts = parameters
    .filter(({ name }) => name.startsWith('x-switchyard-'))
    .map(({ name, schema }) => {
      const value = name.endsWith('-models') ? modelList : schemaArbitrary(schema, resolve)
      return fc.record({ name: fc.constant(name), text: value.map(each => String(each).replace(/[^\x20-\x7e]/g, '?')) })
    })
  return fc
    .oneof(
      { arbitrary: fc.constant([]), weight: 2 },
      { arbitrary: fc.array(fc.oneof(...texts), { maxLength: 2 }), weight: 1 },
    )
    .map(pairs => Object.fromEntries(pairs.map(({ name, text }) => [name, text])))
}

const RUNS = rounds(100)

test('every answer to a generated request is documented, and none is a 5xx', async () => {
  const generation = Object.entries(openapi.paths).filter(
    ([, { post }]) => post !== undefined && 'x-switchyard-provider' in (post.responses[200]!.headers ?? {}),
  )
  expect(generation.map(([path]) => path)).toEqual(
    expect.arrayContaining([
      '/v1/chat/completions',
      '/v1/embeddings',
      '/v1beta/models/{model}:generateContent',
      '/v1beta/models/{model}:streamGenerateContent',
    ]),
  )
  for (const [path, { post }] of generation) {
    const counts = new Map<number, number>()
    const request = fc.record({
      body: schemaArbitrary(post!.requestBody.content['application/json'].schema, resolve, {
        ...known,
        ...knownAt[path],
      }),
      headers: headersOf(post!),
    })
    await fc.assert(
      fc.asyncProperty(request, async ({ body, headers }) => {
        const response = await fetch(`${gateway.url}${path.replace('{model}', 'test-model')}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
          body: JSON.stringify(body),
        })
        const { status } = response
        counts.set(status, (counts.get(status) ?? 0) + 1)
        const text = await response.text()
        expect(status, text).toBeLessThan(500)
        const contentType = response.headers.get('content-type')!.split(';')[0]!
        for (const value of contentType === 'text/event-stream' ? eventsOf(text) : [JSON.parse(text)])
          expect(problemsOf(path, status, contentType, value)).toBe(null)
      }),
      { numRuns: RUNS, seed: 1 },
    )
    // The requests are neither all valid nor all invalid.
    expect(counts.get(200) ?? 0, path).toBeGreaterThan(0)
    expect(counts.get(400) ?? 0, path).toBeGreaterThan(0)
  }
})

/** Returns the data of each event of a stream, without OpenAI's mark of the end. */
function eventsOf(stream: string): unknown[] {
  return stream
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice('data: '.length)))
}
