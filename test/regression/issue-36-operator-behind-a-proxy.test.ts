import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { BrowserClient, operatorToken, PASSWORD } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

// A proxy on the machine of the gateway that sets no header, such as nginx with `proxy_pass` alone, made every browser look like one on
// that machine, and operators needed no second factor.

const app = useTestApp()
const proxy = useResource(
  async () => {
    const server = createServer((incoming, outgoing) => {
      const { port } = new URL(app.url)
      // The Host is that of the upstream, as nginx writes it.
      const headers = { ...incoming.headers, host: `127.0.0.1:${port}`, connection: 'close' }
      const { method, url } = incoming
      const sent = forward({ host: '127.0.0.1', port, method, path: url, headers }, answer => {
        outgoing.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(outgoing)
      })
      incoming.pipe(sent)
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  },
  ({ server }) => server.close(),
)

const PATH = 'operator/overview'

async function operator(email: string) {
  const { token } = await operatorToken(app, email)
  const here = new BrowserClient(app.url)
  expect((await here.post('welcome', { token, password: PASSWORD })).status).toBe(200)
  return here
}

test('a password alone gives an operator no rights, whether or not a proxy shows itself', async () => {
  await operator('proxied@example.com')
  for (const url of [proxy.url, app.url]) {
    const browser = new BrowserClient(url)
    const entered = await browser.post('sign-in', { email: 'proxied@example.com', password: PASSWORD })
    expect(await entered.json()).toMatchObject({ needs_second_factor: true })
    expect(await readError(await browser.get(PATH))).toMatchObject({ status: 403, code: 'second_factor_required' })
  }
})

test('a password alone adds no second factor to an operator, and a link of the host does', async () => {
  const here = await operator('enrols@example.com')
  const browser = new BrowserClient(proxy.url)
  await browser.post('sign-in', { email: 'enrols@example.com', password: PASSWORD })
  expect(await readError(await browser.post('factors/totp/start'))).toMatchObject({ code: 'second_factor_required' })
  expect((await here.post('factors/totp/start')).status).toBe(200)
})

test('a link of the host opens a session with rights in a browser on this machine, also after a new password', async () => {
  const here = await operator('here@example.com')
  expect((await here.get(PATH)).status).toBe(200)
  const changed = { current_password: PASSWORD, new_password: `${PASSWORD} new` }
  expect((await here.post('password', changed)).status).toBe(200)
  expect((await here.get(PATH)).status).toBe(200)
})
