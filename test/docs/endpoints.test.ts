import { beforeAll, describe, expect, test } from 'vitest'
import { consolePaths } from '../../src/http/console/console-pages.ts'
import { lowerRankReasons } from '../../src/wire/api/activity.ts'
import { exportColumns } from '../../src/wire/api/reports.ts'
import { routesOf } from '../harness/routes-of.ts'
import { useTestApp } from '../harness/use-test-app.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/api.md')
const documented = tableRows(page, 'endpoint').map(([endpoint, access]) => {
  const [method, path] = endpoint!.split(' ') as [string, string]
  return { method, path, access, endpoint: endpoint! }
})

interface Example {
  readonly $ref?: string
  readonly value?: unknown
}
interface Operation {
  readonly security: object[]
  readonly responses: Record<number, { content: { 'application/json': { examples: Record<string, Example> } } }>
  readonly parameters?: { name: string; in: string; schema: { default?: unknown } }[]
  readonly requestBody?: { content: { 'application/json': { schema: { $ref: string } } } }
}
interface OpenApi {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly schemas: Record<string, { properties: object; required: string[] }>
    readonly examples: Record<string, Example>
  }
}

/** Addresses of the console's page and files, which docs/console.md lists. */
const isConsolePage = (route: string) => consolePaths.some(path => route === `GET ${path}`)

// By default, the status is for people who are signed in, and there is no contact for security reports.
const app = useTestApp({ yaml: 'status: { public: true }\nsecurity: { contact: "mailto:security@gateway.example" }' })
let openapi: OpenApi
beforeAll(async () => {
  openapi = (await (await fetch(`${app.url}/openapi.json`)).json()) as OpenApi
})

describe('docs/api.md', () => {
  test('lists exactly the routes of the server', () => {
    const routed = routesOf(app.app.server.printRoutes()).filter(
      route => !route.startsWith('OPTIONS ') && !/ \/(console\/api|v1\/admin)\//.test(route) && !isConsolePage(route),
    )
    // The router does not serve these paths.
    const bypassing = [
      'chat/completions',
      'completions',
      'embeddings',
      'messages',
      'rerank',
      'responses',
      'responses/compact',
    ].map(name => `POST /v1/${name}`)
    const methods = ['generateContent', 'streamGenerateContent', 'countTokens', 'embedContent', 'batchEmbedContents']
    const gemini = methods.map(method => `POST /v1beta/models/*:${method}`)
    // The router gets the methods of Google's models that are unknown.
    const others = routed.filter(route => route !== 'POST /v1beta/models/*')
    expect(others).toHaveLength(routed.length - 1)
    const served = [...others.map(route => route.replace(/:\w+/, '*')), ...bypassing, ...gemini]
    const named = documented.map(({ method, path }) => `${method} ${path.replace(/\{\w+\}/, '*')}`)
    expect(named.sort()).toEqual(served.sort())
  })

  test('lists exactly the operations of /openapi.json, and the parts of the reference', () => {
    // docs/operator-api.md lists those of operators.
    const described = Object.entries(openapi.paths).flatMap(([path, operations]) =>
      (path.startsWith('/v1/admin/') ? [] : Object.keys(operations)).map(method => `${method.toUpperCase()} ${path}`),
    )
    const named = documented.map(({ endpoint }) => endpoint).filter(endpoint => !endpoint.includes('/docs/'))
    expect(named.sort()).toEqual(described.sort())
  })

  test('has a section for each endpoint under /v1', () => {
    const sections = [...page.matchAll(/^## `(\w+ \/v1\S*)`$/gm)].map(([, endpoint]) => endpoint)
    expect(sections).toEqual(documented.filter(({ path }) => path.startsWith('/v1')).map(({ endpoint }) => endpoint))
  })

  test('states the access of each endpoint', async () => {
    for (const { method, path, access, endpoint } of documented) {
      const response = await fetch(app.url + path, { method })
      const isHosters = (await response.text()).includes('invalid_hoster_key')
      const found =
        response.status === 401 ? (isHosters ? 'hoster key' : 'key') : response.status === 200 ? 'open' : 'nobody'
      expect({ endpoint, access }).toEqual({ endpoint, access: found })
    }
  })

  test.each(documented.filter(({ method, path }) => method === 'GET' && path.startsWith('/v1')))(
    'lists the parameters of $endpoint with their defaults',
    ({ path, endpoint }) => {
      const taken = (openapi.paths[path]!.get!.parameters ?? [])
        .filter(parameter => parameter.in === 'query')
        .map(({ name, schema }) => [name, String(schema.default ?? 'none')])
      const section = sectionOf(endpoint)
      const rows = section.includes('| query parameter') ? tableRows(section, 'query parameter') : []
      expect(rows.map(([name, , fallback]) => [name, fallback])).toEqual(taken)
    },
  )

  test('lists every reason for a lower rank', () => {
    expect(tableRows(page, 'reason').map(([reason]) => reason)).toEqual([...lowerRankReasons])
  })

  test.each([
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/responses',
    '/v1/messages',
    '/v1beta/models/{model}:generateContent',
    '/v1/embeddings',
    '/v1/rerank',
  ])('lists the fields of POST %s and marks the required ones', path => {
    const { schema } = openapi.paths[path]!.post!.requestBody!.content['application/json']
    const { properties, required } = openapi.components.schemas[schema.$ref.split('/').at(-1)!]!
    const rows = tableRows(sectionOf(`POST ${path}`), 'field')
    expect(rows.map(([field]) => field).sort()).toEqual(Object.keys(properties).sort())
    const named = rows.filter(([, type]) => type!.endsWith('required')).map(([field]) => field)
    expect(named.sort()).toEqual([...required].sort())
  })

  test('lists the fields of an alert rule', () => {
    const { schema } = openapi.paths['/v1/alerts']!.post!.requestBody!.content['application/json']
    const { properties } = openapi.components.schemas[schema.$ref.split('/').at(-1)!]!
    const rows = tableRows(sectionOf('POST /v1/alerts'), 'body field')
    expect(rows.map(([field]) => field).sort()).toEqual(Object.keys(properties).sort())
  })

  test('lists exactly the headers of an answer', async () => {
    const customer = await app.customer()
    const refused = await app.chat(
      customer,
      { model: 'nobody-has-this', messages: [{ role: 'user', content: 'x' }] },
      // With an origin, the answer lists the headers that a browser may read.
      {
        headers: {
          authorization: `Bearer ${customer.key}`,
          'content-type': 'application/json',
          origin: 'http://a.example',
        },
      },
    )
    await refused.arrayBuffer()
    const exposed = refused.headers.get('access-control-expose-headers')!.split(', ')
    const named = tableRows(page, 'header').map(([header]) => header!.split(':')[0]!)
    expect(named.sort()).toEqual(exposed.sort())
    for (const header of named.filter(header => header.startsWith('x-ratelimit-')))
      expect(refused.headers.has(header), header).toBe(true)
  })

  test('lists the columns of the export', () => {
    expect(sectionOf('GET /v1/usage/export')).toContain(`\n${exportColumns.join(',')}\n`)
  })
})

describe('/openapi.json', () => {
  test('documents an error of each endpoint in the format in which it is sent', async () => {
    const checked: string[] = []
    for (const [path, operations] of Object.entries(openapi.paths)) {
      for (const [method, { responses }] of Object.entries(operations)) {
        const documented = responses[401]?.content['application/json'].examples
        const answered = await fetch(app.url + path, { method: method.toUpperCase() })
        const body = await answered.text()
        if (documented === undefined || answered.status !== 401) continue
        const [[code, example]] = Object.entries(documented) as [[string, Example]]
        const { value } = example.$ref === undefined ? example : openapi.components.examples[code]!
        expect({ path, error: shapeOf(JSON.parse(body)) }).toEqual({ path, error: shapeOf(value) })
        checked.push(path)
      }
    }
    expect(checked).toEqual(expect.arrayContaining(['/v1/messages/count_tokens', '/v1beta/models/{model}:countTokens']))
  })
})

/** Replaces each value by its type, so that two errors with other texts are equal. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf)
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shapeOf(each)]))
}

/** Returns the text under `## \`GET /v1/usage\``, up to the next section. */
function sectionOf(endpoint: string): string {
  const start = page.indexOf(`\n## \`${endpoint}\`\n`)
  return page.slice(start, page.indexOf('\n## ', start + 1))
}
