import { Agent, request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { mintApiKey } from '../../src/identity/auth/api-key.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway)

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

test('/healthz and /readyz need no key', async () => {
  for (const path of ['/healthz', '/readyz']) {
    const response = await fetch(gateway.url + path)
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
  }
})

test('security 50: scanners find the contact and the pattern of keys', async () => {
  expect(await readError(await fetch(`${gateway.url}/.well-known/security.txt`))).toMatchObject({ status: 404 })
  const yaml =
    'security: { contact: "mailto:security@gateway.example" }\nserver: { public_base_url: "https://gateway.example" }'
  const nowMs = Date.UTC(2026, 10, 26, 15)
  const clock = { epochMs: () => nowMs, monotonicMs: () => performance.now() }
  const node = await startTestApp({ yaml, clock })
  const response = await fetch(`${node.url}/.well-known/security.txt`)
  const text = await response.text()
  await node.close()
  expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  const fields = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  expect(fields).toEqual([
    'Contact: mailto:security@gateway.example',
    'Expires: 2027-05-25T00:00:00.000Z',
    'Preferred-Languages: en',
    'Canonical: https://gateway.example/.well-known/security.txt',
  ])
  const pattern = new RegExp(`^${/match (\S+)\. /.exec(text)![1]}$`)
  expect([mintApiKey(), mintApiKey('hk-sy-'), mintApiKey('ok-sy-')].every(key => pattern.test(key))).toBe(true)
})

test('metrics count requests, attempts and money, without customer ids', async () => {
  await gateway.chat(customer, hello)
  upstream.respondWith(status(500))
  await gateway.chat(customer, hello)
  const text = await gateway.metrics()
  const count = (line: RegExp) => Number(line.exec(text)?.[1] ?? Number.NaN)
  expect(count(/^switchyard_http_requests_total\{path="\/v1\/chat\/completions",status="200"\} (\d+)$/m)).toBe(1)
  expect(count(/^switchyard_http_requests_total\{path="\/v1\/chat\/completions",status="500"\} (\d+)$/m)).toBe(1)
  expect(count(/^switchyard_attempts_total\{provider="local",outcome="answered",endpoint="[^"]+"\} (\d+)$/m)).toBe(1)
  expect(count(/^switchyard_attempts_total\{provider="local",outcome="server_error",endpoint="[^"]+"\} (\d+)$/m)).toBe(
    1,
  )
  expect(count(/^switchyard_refusals_total\{code="\w+"\} (\d+)$/m)).toBe(1)
  expect(count(/^switchyard_database_connections\{pool="money",state="idle"\} (\d+)$/m)).toBeGreaterThan(0)
  expect(count(/^switchyard_memory_budget_bytes (\d+)$/m)).toBeGreaterThan(0)
  expect(
    count(/^switchyard_charged_nano_usd_total\{model="[^"]+",endpoint="[^"]+",provider="local",hoster=""\} (\d+)$/m),
  ).toBe(Number(5_000_000_000n - (await gateway.balanceNanos(customer))))
  expect(count(/^switchyard_requests_in_flight (\d+)$/m)).toBe(0)
  expect(text).not.toContain(customer.customerId)
  expect(text).not.toContain(customer.key)
})

test('the port of the API has no /metrics', async () => {
  expect(await readError(await fetch(`${gateway.url}/metrics`))).toMatchObject({ status: 404, code: 'not_found' })
})

test('/openapi.json shows the error of a daily limit as each endpoint sends it', async () => {
  const { paths, components } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenApi
  const exampleAt = (path: string) => {
    const { examples } = paths[path]!.post.responses['429'].content['application/json']
    const { $ref, value } = examples.daily_limit_exceeded
    return $ref === undefined ? value : components.examples[$ref.split('/').at(-1)!]!.value
  }
  expect(exampleAt('/v1/responses')).toMatchObject({ error: { type: 'usage_limit_reached' } })
  expect(exampleAt('/v1/chat/completions')).toMatchObject({ error: { type: 'rate_limit_error' } })
  expect(exampleAt('/v1/messages')).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' } })
  expect(components.schemas.Error.properties.error.properties.type.enum).toContain('usage_limit_reached')
})

interface OpenApi {
  readonly paths: Record<string, { post: { responses: { 429: { content: Record<'application/json', JsonErrors> } } } }>
  readonly components: {
    readonly examples: Record<string, { value: unknown }>
    readonly schemas: { Error: { properties: { error: { properties: { type: { enum: string[] } } } } } }
  }
}

interface JsonErrors {
  readonly examples: { readonly daily_limit_exceeded: { readonly $ref?: string; readonly value?: unknown } }
}

test('/openapi.json and /docs need no key', async () => {
  const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { openapi: string; paths: object }
  expect(document.openapi).toMatch(/^3\.1/)
  expect(Object.keys(document.paths)).toEqual(
    expect.arrayContaining(['/v1/chat/completions', '/v1/usage', '/v1/models/{id}', '/healthz']),
  )
  const page = await fetch(`${gateway.url}/docs`)
  expect(page.headers.get('content-type')).toContain('text/html')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  const script = await fetch(`${gateway.url}/docs/scalar.js`)
  expect(script.status).toBe(200)
  expect((await script.text()).length).toBeGreaterThan(100_000)
})

test('/docs/ leads to /docs, which keeps the order of the fields', async () => {
  const redirect = await fetch(`${gateway.url}/docs/`, { redirect: 'manual' })
  expect([redirect.status, redirect.headers.get('location')]).toEqual([308, '/docs'])
  expect(await (await fetch(`${gateway.url}/docs/`)).text()).toContain('"orderSchemaPropertiesBy":"preserve"')
})

describe('the page at /', () => {
  const published = useTestApp(() => ({ yaml: 'server: { public_base_url: https://api.example.com/v1 }' }))

  test('is the console for browsers', async () => {
    const response = await fetch(gateway.url, { headers: { accept: 'text/html,application/json' } })
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(response.headers.get('vary')).toBe('accept')
    expect(await response.text()).toContain('<div id="root">')
  })

  test('is JSON for a client that accepts JSON and no HTML', async () => {
    const response = await fetch(gateway.url, { headers: { accept: 'application/json' } })
    expect(response.headers.get('vary')).toBe('accept')
    expect(await response.json()).toMatchObject({
      name: 'Switchyard',
      base_url: `${gateway.url}/v1`,
      openapi_url: `${gateway.url}/openapi.json`,
    })
    const headers = { accept: 'application/json' }
    const links = (await (await fetch(gateway.url, { headers })).json()) as Record<string, string>
    for (const [name, url] of Object.entries(links).filter(([name]) => /^(?:doc|open|health)/.test(name))) {
      expect([name, (await fetch(url)).status]).toEqual([name, 200])
    }
    expect(await (await fetch(published.url, { headers })).json()).toMatchObject({
      base_url: 'https://api.example.com/v1',
    })
  })

  test.each(['"><script>alert(1)</script>', "x'-alert(1)-'", 'user@x'])('refuses the Host %s', async host => {
    const { status } = await rawRequest(gateway.url, `GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
    expect(status).toBe(400)
  })
})

describe('browsers', () => {
  const requestHeaders = 'authorization, content-type, x-stainless-lang, x-stainless-retry-count'

  test.each(['/v1/chat/completions', '/v1/usage', '/v1/models', '/v1/models/meta/llama'])(
    'may call %s from any origin',
    async path => {
      const response = await fetch(gateway.url + path, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://example.com',
          'access-control-request-method': 'POST',
          'access-control-request-headers': requestHeaders,
        },
      })
      expect(response.status).toBe(204)
      expect(response.headers.get('access-control-allow-origin')).toBe('*')
      expect(response.headers.get('access-control-allow-headers')).toBe(requestHeaders)
      expect(response.headers.get('access-control-allow-methods')).toContain('POST')
      expect(response.headers.get('access-control-allow-credentials')).toBeNull()
    },
  )

  test('may read answers and errors with their headers', async () => {
    for (const headers of [{ authorization: `Bearer ${customer.key}` }, {}] as Record<string, string>[]) {
      const response = await fetch(`${gateway.url}/v1/models`, {
        headers: { ...headers, origin: 'https://example.com' },
      })
      expect(response.headers.get('access-control-allow-origin')).toBe('*')
      expect(response.headers.get('access-control-expose-headers')).toContain('x-request-id')
      expect(response.headers.get('access-control-expose-headers')).toContain('retry-after')
    }
  })

  test('may not read the service endpoints', async () => {
    for (const path of ['/healthz', '/docs']) {
      expect((await fetch(gateway.url + path)).headers.get('access-control-allow-origin')).toBeNull()
    }
  })
})

test('HEAD answers like GET without a body', async () => {
  const response = await fetch(`${gateway.url}/healthz`, { method: 'HEAD' })
  expect([response.status, await response.text()]).toEqual([200, ''])
})

test('one connection serves several requests, also after a refusal and a stream', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const sockets = new Set<unknown>()
  const send = (body: object) =>
    new Promise<number>((resolve, reject) => {
      const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' }
      const sent = request(`${gateway.url}/v1/chat/completions`, { method: 'POST', agent, headers }, response => {
        sockets.add(response.socket)
        response.resume().on('end', () => resolve(response.statusCode!))
      })
      sent.on('error', reject).end(JSON.stringify(body))
    })
  const statuses: number[] = []
  for (const body of [hello, { ...hello, tier: 'x' }, { ...hello, stream: true }, { ...hello, model: 'x' }, hello]) {
    statuses.push(await send(body))
  }
  agent.destroy()
  expect(statuses).toEqual([200, 400, 200, 404, 200])
  expect(sockets.size).toBe(1)
})
