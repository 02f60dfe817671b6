import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { hosterKey } from '../harness/hosters.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { routesOf } from '../harness/routes-of.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'hosters:\n  allow_private_urls: true\n',
}))

test('no cache keeps an answer for a key or a session, and no answer of any address is sniffed', async () => {
  const customer = await app.customer({ key: { scopes: ['manage'] } })
  const hosterId = await app.hoster({ baseUrl: 'http://127.0.0.1:9' })
  const { key } = await hosterKey(app, hosterId)
  const { browser } = await signedInOperator(app)
  const cached = new Set<string>()
  const ids = { customer_id: customer.customerId, hoster_id: hosterId }
  const addresses = routesOf(app.app.server.printRoutes()).flatMap(route => {
    // The streams of live pages do not end.
    const [, path] = /^GET (\/.*)$/.exec(route) ?? []
    return path === undefined || path.endsWith('/live') ? [] : [path]
  })
  for (const path of addresses) {
    const filled = path
      .replace(/:(customer_id|hoster_id)/g, (_, name: keyof typeof ids) => ids[name])
      .replace(/:\w+|\*/g, randomUUID())
    const authorization = `Bearer ${path.startsWith('/v1/hoster/') || path === '/v1/hoster' ? key : customer.key}`
    const isConsole = path.startsWith('/console/api/')
    const answer = await fetch(`${app.url}${filled}`, {
      headers: isConsole ? { cookie: browser.cookie!, 'sec-fetch-site': 'same-origin' } : { authorization },
      redirect: 'manual',
    })
    await answer.arrayBuffer()
    expect({ path, options: answer.headers.get('x-content-type-options') }).toEqual({ path, options: 'nosniff' })
    if (answer.headers.get('cache-control') !== 'no-store') cached.add(path)
  }
  expect(addresses.length).toBeGreaterThan(100)
  // What everybody may read.
  expect([...cached].filter(path => /^\/(v1|v1beta|console\/api)\//.test(path)).sort()).toEqual([])
})

test('generated answers, streams too, and refusals of what cannot be parsed are not sniffed', async () => {
  const customer = await app.customer()
  const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  for (const body of [chat, { ...chat, stream: true }, { ...chat, model: 'unknown' }]) {
    const answer = await app.chat(customer, body)
    await answer.arrayBuffer()
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
  }
  for (const head of ['GET / HTTP/1.1\r\nbad header\r\n\r\n', `POST /v1/keys HTTP/1.1\r\nHost: x\r\nExpect: y\r\n\r\n`])
    expect((await rawRequest(app.url, head)).headers).toMatchObject({ 'x-content-type-options': 'nosniff' })
})
