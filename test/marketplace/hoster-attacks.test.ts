import { expect, onTestFinished, test } from 'vitest'
import { dial } from '../../src/market/agent/dial.ts'
import { CONTROL_PATH } from '../../src/wire/api/agent-protocol.ts'
import { startTestApp } from '../harness/app.ts'
import { signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest, signedInHoster } from '../harness/hosters.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// Attacks on hosters and by hosters that belong to no single address. docs/security.md lists all attacks with their tests.

const app = useTestApp()

test.each([
  'http://models.acme.dev/v1',
  'https://127.0.0.1/v1',
  'https://0x7f.1/v1',
  'https://2130706433/v1',
  'https://１２７.0.0.1/v1',
  'https://0/v1',
  'https://[::ffff:127.0.0.1]/v1',
  'https://[64:ff9b::a9fe:a9fe]/v1',
  'https://[fd00::1]/v1',
  'https://169.254.169.254/v1',
  'https://localhost./v1',
  'https://metadata.google.internal/v1',
  'https://evil.com@127.0.0.1/v1',
  'https://models.acme.dev:6379/v1',
  'gopher://models.acme.dev/v1',
])('security 28 to 32: a hoster cannot choose the server %s', async base_url => {
  const { browser } = await signedInMember(app, (await app.customer()).customerId)
  const server = { transport: 'direct', base_url }
  const applied = await browser.post('hosters', { name: 'inside', ...server })
  expect(await readError(applied)).toMatchObject({ status: 400, param: 'base_url' })

  const hosterId = await app.hoster({ baseUrl: 'https://models.acme.dev/v1' })
  const { key } = await hosterKey(app, hosterId, ['manage'])
  const changed = await hosterRequest(app, key, 'hoster/server', { method: 'PUT', body: server })
  expect(await readError(changed)).toMatchObject({ status: 400, param: 'base_url' })
  expect(await (await hosterRequest(app, key, 'hoster')).json()).toMatchObject({
    endpoint: { base_url: 'https://models.acme.dev/v1' },
  })
})

test.each(['a\0b', 'half \ud800', 'turn \u202e', 'clear \u001b[2J'])(
  'the text %j is refused wherever a hoster sends one',
  async text => {
    const hosterId = await app.hoster({ baseUrl: 'https://models.acme.dev/v1' })
    const { browser } = await signedInHoster(app, hosterId)
    const { key } = await hosterKey(app, hosterId, ['manage'])
    const send = (path: string, body: object, method = 'POST') => hosterRequest(app, key, path, { method, body })
    const refused = await Promise.all([
      send('hoster/state', { state: 'paused', reason: text }),
      send('hoster/appeal', { text }),
      send('hoster/keys', { name: text, scopes: ['read'] }),
      send('hoster/server', { transport: 'direct', base_url: `https://models.acme.dev/${text}` }, 'PUT'),
      send('hoster/server', { transport: 'direct', base_url: 'https://models.acme.dev/v1', api_key: text }, 'PUT'),
      send('hoster/manifest', { models: [], region: text }, 'PUT'),
      browser.post('hosters', { name: text, transport: 'agent' }),
    ])
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 400))
  },
)

test('security 8: no key of a hoster and no key of its server is in the log', async () => {
  let log = ''
  const logged = await startTestApp({
    yaml: 'log: { level: debug }',
    onLog: line => {
      log += line
    },
  })
  onTestFinished(() => logged.close())
  const hosterId = await logged.hoster({ baseUrl: 'https://models.acme.dev/v1' })
  const { key } = await hosterKey(logged, hosterId)
  const secret = 'key-of-the-server-0123456789'
  const put = (path: string, body: object) => hosterRequest(logged, key, path, { method: 'PUT', body })
  await put('hoster/server', { transport: 'direct', base_url: 'https://other.acme.dev/v1', api_key: secret })
  await put('hoster/server', { transport: 'direct', base_url: `https://127.0.0.1/${key}`, api_key: secret })
  await put('hoster/manifest', { models: [{ id: `${key} x`, name: secret }] })
  await hosterRequest(logged, key, 'hoster/state', { method: 'POST', body: { state: 'paused', reason: key } })
  for (const target of [`/v1/hoster?key=${key}`, `/v1/hoster/keys/${key}`, `/v1/hosters/${key}`, `/${key}`])
    await rawRequest(logged.url, `GET ${target} HTTP/1.1\r\nhost: x\r\nuser-agent: ${key}\r\nconnection: close\r\n\r\n`)
  for (const path of [`${CONTROL_PATH}?endpoint=${key}`, `${CONTROL_PATH}?linked=${key}`]) {
    const dialled = await dial({ gateway: logged.url, path, key, agentId: key })
    if (dialled.kind === 'open') dialled.socket.terminate()
  }
  await logged.stop()
  expect(log).not.toBe('')
  expect(log).not.toContain(key)
  expect(log).not.toContain(secret)
})
