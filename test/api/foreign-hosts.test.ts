import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { type TestApp, testOffer } from '../harness/app.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
const customer = useCustomer(gateway)
const named = useTestApp(() => ({
  yaml: 'server: { public_base_url: https://api.example.com/v1, allowed_hosts: [gateway.lan.example, "*.box.example"] }',
  offers: [testOffer(upstream.baseUrl)],
}))

interface Sent {
  readonly status: number
  readonly body: string
}

/** fetch sets the Host header itself. */
function send({ url }: TestApp, host: string, path: string, body?: string, key?: string): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const headers = { host, ...(key && { authorization: `Bearer ${key}`, 'content-type': 'application/json' }) }
    request(`${url}${path}`, { method: body === undefined ? 'GET' : 'POST', headers }, async response => {
      resolve({ status: response.statusCode!, body: await text(response) })
    })
      .on('error', reject)
      .end(body)
  })
}

const chat = JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] })
// node:http sends this body in chunks, so it does not pass the plain server.
const slowPath = { ...JSON.parse(chat), messages: [{ role: 'user', content: 'Hi '.repeat(40_000) }], max_tokens: 1 }

test.each(['/', '/healthz', '/docs', '/openapi.json', '/v1/models', '/nothing'])(
  'GET %s is refused for a foreign Host',
  async path => {
    const { status, body } = await send(gateway, 'evil.net:8080', path)
    expect(status).toBe(400)
    expect(JSON.parse(body).error).toMatchObject({
      code: 'invalid_header',
      param: 'Host',
      message:
        'The Host "evil.net:8080" is not a name of this server. Use its address, or add the name to server.allowed_hosts.',
    })
  },
)

test('a Host that is no name is refused, whatever it ends with', async () => {
  for (const host of ['localhost"><script>', 'a b.localhost', 'user@localhost', 'x/y'])
    expect((await send(gateway, host, '/healthz')).status, host).toBe(400)
})

test.each([chat, JSON.stringify(slowPath)])('a chat is refused for a foreign Host', async body => {
  const refused = await send(gateway, 'evil.net', '/v1/chat/completions', body, customer.key)
  expect(refused.status).toBe(400)
  expect(JSON.parse(refused.body).error).toMatchObject({ code: 'invalid_header', param: 'Host' })
  for (const host of ['localhost:8080', 'gateway-1', 'nas.local']) {
    expect((await send(gateway, host, '/v1/chat/completions', body, customer.key)).status).toBe(200)
  }
})

test('the public name and configured names are allowed, as a proxy passes them on', async () => {
  for (const host of ['api.example.com', 'gateway.lan.example:8080', 'a.box.example']) {
    expect((await send(named, host, '/healthz')).status).toBe(200)
    expect((await send(gateway, host, '/healthz')).status).toBe(400)
  }
  expect((await send(named, 'lan.example', '/healthz')).status).toBe(400)
})
