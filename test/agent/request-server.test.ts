import { once } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import { WebSocketServer } from 'ws'
import { type Dialled, dial } from '../../src/market/agent/dial.ts'
import { RequestServer } from '../../src/market/agent/request-server.ts'
import { Slots } from '../../src/market/agent/slots.ts'
import { UpstreamServer } from '../../src/market/agent/upstream.ts'
import { useResource } from '../harness/use-resource.ts'
import { useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
/** A gateway that only opens WebSockets. */
const gateway = useResource(
  async () => {
    const sockets = new WebSocketServer({ host: '127.0.0.1', port: 0 })
    await once(sockets, 'listening')
    return { sockets, url: `http://127.0.0.1:${(sockets.address() as { port: number }).port}` }
  },
  ({ sockets }) => sockets.close(),
)
const open: Extract<Dialled, { kind: 'open' }>[] = []
afterEach(() => {
  for (const { socket } of open.splice(0)) socket.terminate()
})

/** Sends bytes over a data connection and returns the bytes of the response. */
async function exchange(bytes: string): Promise<string> {
  const server = new RequestServer({
    upstream: new UpstreamServer({ baseUrl: upstream.baseUrl, key: 'the key of the server' }),
    slots: new Slots(1, 1, () => {}),
    isAnnounced: model => model === 'test-model',
    refusal: () => null,
    onTokens() {},
  })
  const connected = once(gateway.sockets, 'connection')
  const dialled = await dial({ gateway: gateway.url, path: '/', key: 'key', agentId: 'agent' })
  if (dialled.kind === 'refused') throw new Error(dialled.message)
  open.push(dialled)
  const [socket] = await connected
  server.serve(dialled.socket)
  dialled.socket.resume()
  let response = ''
  socket.on('message', (data: Buffer) => {
    response += data
  })
  socket.send(Buffer.from(bytes))
  await once(socket, 'close')
  return response
}

function request(method: string, path: string, body: unknown, headers = ''): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return `${method} ${path} HTTP/1.1\r\nhost: agent.invalid\r\n${headers}content-length: ${text.length}\r\n\r\n${text}`
}

it('forwards generation requests of announced models, and nothing else', async () => {
  const body = { model: 'test-model', messages: [] }
  const table = [
    ['another method', request('GET', '/v1/models', ''), 404],
    ['another path of the server', request('POST', '/api/pull', body), 404],
    ['a path that leaves', request('POST', '/v1/../api/pull', body), 404],
    ['an encoded path', request('POST', '/v1/chat%2fcompletions', body), 404],
    ['a query', request('POST', '/v1/chat/completions?x=1', body), 404],
    ['an absolute address', request('POST', 'http://169.254.169.254/v1/chat/completions', body), 404],
    ['a model that is not announced', request('POST', '/v1/chat/completions', { model: 'other' }), 404],
    ['no model', request('POST', '/v1/chat/completions', '[]'), 404],
    ['no JSON', request('POST', '/v1/chat/completions', 'x'), 404],
  ] as const
  for (const [what, bytes, status] of table) {
    expect(await exchange(bytes), what).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  }
  expect(upstream.requests).toHaveLength(0)
  expect(await exchange('hello\r\n\r\n')).toBe('')
})

it('rebuilds the headers of both directions', async () => {
  upstream.respondWith((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'set-cookie': 'a=b', server: 'secret' })
    response.end('{}')
  })
  const headers = 'cookie: a=b\r\nauthorization: Bearer of the gateway\r\nx-forwarded-for: 1.2.3.4\r\n'
  const response = await exchange(request('POST', '/v1/chat/completions', { model: 'test-model' }, headers))
  expect(response).toMatch(/^HTTP\/1.1 200 OK\r\ncontent-type: application\/json\r\n/)
  expect(response).not.toMatch(/set-cookie|server:/i)
  const { headers: sent } = await upstream.next()
  expect(Object.keys(sent).toSorted()).toEqual([
    'accept',
    'accept-encoding',
    'authorization',
    'connection',
    'content-length',
    'content-type',
    'host',
  ])
  expect(sent.authorization).toBe('Bearer the key of the server')
})

it('a second request on a connection is not served', async () => {
  const one = request('POST', '/v1/chat/completions', { model: 'test-model' })
  const before = upstream.requests.length
  const response = await exchange(one + one)
  expect(response.match(/HTTP\/1.1 200/g)).toHaveLength(1)
  expect(upstream.requests.length - before).toBe(1)
})
