import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { atRate, type ClientBehaviour, type Target } from '../behaviour.ts'
import { flood } from '../flood.ts'
import { chat, chatHead, drips, keepsOpen, openSocket, opensAndWrites, wire } from './send.ts'

const stream = (target: Target, more: object = {}) =>
  wire(target, { body: chat('a', { stream: true, max_tokens: 4_000, ...more }) })
const demo = { model: 'demo', max_tokens: 4_000 }
const rich = { creditUsd: 1_000_000 }

/** Customers with a valid key that use their connections badly. */
export const connectionClients: readonly ClientBehaviour[] = [
  opensAndWrites(
    'streams-unread',
    'streams that are never read',
    { ratePerS: 100, customer: rich },
    target => stream(target, demo),
    socket => socket.pause(),
  ),
  opensAndWrites(
    'answers-unread',
    'whole answers that are never read',
    { ratePerS: 100, customer: rich },
    target => wire(target, { body: chat('a', demo) }),
    socket => socket.pause(),
  ),
  opensAndWrites('leaves-at-once', 'requests whose client leaves at once', { ratePerS: 300 }, stream, socket =>
    socket.end(),
  ),
  opensAndWrites('resets-at-once', 'requests whose client resets at once', { ratePerS: 300 }, stream, socket => {
    socket.once('connect', () => setImmediate(() => socket.resetAndDestroy()))
  }),
  opensAndWrites(
    'leaves-in-stream',
    'streams whose client leaves after 50 ms',
    { ratePerS: 200, customer: rich },
    target => stream(target, demo),
    async socket => {
      await delay(50)
      socket.destroy()
    },
  ),
  opensAndWrites(
    'half-closed',
    'requests whose client ends its side and waits',
    { ratePerS: 200 },
    target => wire(target, { body: chat('a') }),
    socket => socket.end(),
  ),
  opensAndWrites(
    'pipelines',
    '100 requests at once on each connection',
    { ratePerS: 5, inFlightMax: 50 },
    target => wire(target, { body: chat('a') }).repeat(100),
    () => {},
  ),
  opensAndWrites(
    'pipelines-unread',
    '100 requests at once on connections that are not read',
    { ratePerS: 5, inFlightMax: 50 },
    target => wire(target, { body: chat('a') }).repeat(100),
    socket => socket.pause(),
  ),
  opensAndWrites(
    'pipelined-bytes',
    'bytes without end behind a stream',
    { ratePerS: 5, inFlightMax: 8, customer: rich },
    target => stream(target, demo),
    socket => flood(socket, Buffer.alloc(65_536, 'x')),
  ),
  opensAndWrites(
    'http-1.0',
    'requests of HTTP/1.0',
    { ratePerS: 200 },
    target => wire(target, { body: chat('a') }).replace('HTTP/1.1', 'HTTP/1.0'),
    () => {},
  ),
  opensAndWrites(
    'upgrades',
    'requests for WebSockets',
    { ratePerS: 200 },
    ({ origin }) =>
      `GET /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(origin).host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n`,
    () => {},
  ),
  opensAndWrites(
    'expects-continue',
    'Expect: 100-continue, and then no body',
    { ratePerS: 100 },
    target => chatHead(target, 'expect: 100-continue\r\ncontent-length: 4000000\r\n'),
    () => {},
  ),
  opensAndWrites(
    'two-lengths',
    'requests with two lengths',
    { ratePerS: 200 },
    target => `${chatHead(target, 'content-length: 2\r\ncontent-length: 3\r\n')}{}`,
    () => {},
  ),
  opensAndWrites(
    'one-byte-chunks',
    'bodies in chunks of one byte, as fast as possible',
    { ratePerS: 5, inFlightMax: 8 },
    target => chatHead(target, 'transfer-encoding: chunked\r\n'),
    socket => flood(socket, Buffer.from('1\r\nx\r\n'.repeat(11_000))),
  ),
  opensAndWrites(
    'chunk-extensions',
    'chunks of one byte with 8 kB of extensions',
    { ratePerS: 5, inFlightMax: 8 },
    target => chatHead(target, 'transfer-encoding: chunked\r\n'),
    socket => flood(socket, Buffer.from(`1;${'x=y;'.repeat(2_000)}\r\nx\r\n`.repeat(8))),
  ),
  opensAndWrites(
    'trailers',
    'trailers without end',
    { ratePerS: 5, inFlightMax: 8 },
    target => `${chatHead(target, 'transfer-encoding: chunked\r\n')}2\r\n{}\r\n0\r\n`,
    socket => flood(socket, Buffer.from('x-trailer: value\r\n'.repeat(3_600))),
  ),
  opensAndWrites(
    'chunk-drip',
    'bodies of one chunk each 10 ms',
    { ratePerS: 50, inFlightMax: 300 },
    target => chatHead(target, 'transfer-encoding: chunked\r\n'),
    socket => drips(socket, '1\r\n \r\n', 10),
  ),
  opensAndWrites(
    'body-drip',
    'bodies of one byte each 10 ms',
    { ratePerS: 50, inFlightMax: 300 },
    target => chatHead(target, 'content-length: 60000\r\n'),
    socket => drips(socket, ' ', 10),
  ),
  opensAndWrites(
    'half-bodies-4-mb',
    'bodies of 4 MB without their last byte',
    { ratePerS: 5, inFlightMax: 200 },
    target => `${chatHead(target, 'content-length: 4000001\r\n')}${' '.repeat(4_000_000)}`,
    () => {},
  ),
  opensAndWrites(
    'endless-bodies',
    'chunked bodies without end',
    { ratePerS: 5, inFlightMax: 8 },
    target => chatHead(target, 'transfer-encoding: chunked\r\n'),
    socket => flood(socket, Buffer.from(`fff8\r\n${'x'.repeat(65_528)}\r\n`)),
  ),
  halfBodies('half-bodies-200', 3_900_000),
  // Below the length from which customers take turns.
  halfBodies('half-bodies-60-kb', 60_000),
  keepsOpen(
    'open-streams',
    'streams of 20 tokens a second',
    200,
    (socket, target) => void socket.write(stream(target, { max_tokens: 1_024, user: 'slow' })),
    'customer',
  ),
]

/** Opens 200 bodies of this length at once. None of them gets its last byte. */
function halfBodies(name: string, length: number): ClientBehaviour {
  return {
    name,
    what: `200 bodies of ${length / 1_000} kB without their last byte, at once`,
    party: 'customer',
    async run(target) {
      const bytes = Buffer.from(`${chatHead(target, `content-length: ${length + 1}\r\n`)}${' '.repeat(length)}`)
      const sockets = new Set<Socket>()
      for (let at = 0; at < 200; at++) openSocket(target, sockets).write(bytes)
      await untilAborted(target.signal)
      for (const socket of sockets) socket.destroy()
    },
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => signal.addEventListener('abort', () => resolve()))
}

/** Strangers that send 200 requests at once on each of 51 connections a second, and read the answers. */
function pipeliners(): ClientBehaviour[] {
  const options = { ratePerS: 51, party: 'stranger' as const }
  const pipelines = (name: string, what: string, request: (host: string) => string) =>
    opensAndWrites(
      `pipelines-${name}`,
      `200 requests at once ${what}`,
      options,
      ({ origin }) => request(new URL(origin).host).repeat(200),
      () => {},
    )
  const keyless = (host: string) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`
  const get = (path: string) => (host: string) => `GET ${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`
  return [
    pipelines('keyless', 'without a key', keyless),
    pipelines('unknown', 'for an address that does not exist', get('/v1/none')),
    pipelines('health', 'for /healthz', get('/healthz')),
    pipelines('options', 'with OPTIONS', host => get('/v1/models')(host).replace('GET', 'OPTIONS')),
    opensAndWrites(
      'pipelines-tiny',
      '3,000 requests at once of 22 bytes',
      { ratePerS: 20, party: 'stranger' },
      () => 'GET /a HTTP/1.1\r\nhost:\r\n\r\n'.repeat(3_000),
      () => {},
    ),
  ]
}

/** Clients without a key. */
export const connectionStrangers: readonly ClientBehaviour[] = [
  keepsOpen('silent', 'silence', 2_000, () => {}),
  keepsOpen(
    'half-heads',
    'half a head',
    2_000,
    socket => void socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n'),
  ),
  keepsOpen('head-drip', 'one byte of a head each second', 1_000, socket => {
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n')
    return drips(socket, 'x', 1_000)
  }),
  keepsOpen('endless-heads', 'header fields without end', 50, socket => {
    socket.write('GET / HTTP/1.1\r\n')
    return flood(socket, Buffer.from('x-field: value\r\n'.repeat(4_000)))
  }),
  keepsOpen('noise', 'random bytes', 50, socket =>
    flood(socket, Buffer.from(Array.from({ length: 65_536 }, (_, at) => (at * 197) % 256))),
  ),
  ...pipeliners(),
  opensAndWrites(
    'one-byte-chunks',
    'bodies in chunks of one byte without a key, as fast as possible',
    { ratePerS: 5, inFlightMax: 8, party: 'stranger' },
    ({ origin }) =>
      `POST /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(origin).host}\r\ntransfer-encoding: chunked\r\n\r\n`,
    socket => flood(socket, Buffer.from('1\r\nx\r\n'.repeat(11_000))),
  ),
  keepsOpen(
    'tls',
    'the first bytes of TLS',
    200,
    socket => void socket.write(Buffer.from('1603010200010001fc0303', 'hex')),
  ),
  {
    name: 'connection-flood',
    what: '1,000 connections a second that close at once',
    party: 'stranger',
    async run(target) {
      const sockets = new Set<ReturnType<typeof openSocket>>()
      await atRate(1_000, target.signal, () => openSocket(target, sockets).end())
      for (const socket of sockets) socket.destroy()
    },
  },
]
