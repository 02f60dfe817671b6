import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts'

// An echo server stands in for PostgreSQL.
let proxy: FaultProxy
let stop: () => Promise<void>
const clients: Socket[] = []

beforeEach(async () => {
  const server = createServer(socket => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  proxy = await startFaultProxy({ host: '127.0.0.1', port })
  stop = async () => {
    for (const client of clients.splice(0)) client.destroy()
    await proxy.close()
    server.close()
    await once(server, 'close')
  }
})
afterEach(() => stop())

async function join(): Promise<Socket> {
  const client = connect(Number(proxy.connection.port), '127.0.0.1')
  client.on('error', () => {})
  clients.push(client)
  await Promise.race([new Promise(resolve => client.once('connect', resolve)), closed(client)])
  return client
}

/** Unlike `once`, does not reject on a reset. */
function closed(client: Socket): Promise<void> {
  return new Promise(resolve => {
    if (client.closed) resolve()
    else client.once('close', () => resolve())
  })
}

async function echo(client: Socket, text: string): Promise<string> {
  client.write(text)
  let seen = ''
  const whole = Promise.withResolvers<void>()
  const onData = (bytes: Buffer) => {
    seen += bytes
    if (seen.length >= text.length) whole.resolve()
  }
  client.on('data', onData)
  const ending = await Promise.race([whole.promise, closed(client).then(() => '(closed)')])
  client.off('data', onData)
  return seen + (ending ?? '')
}

test('forwards bytes in both directions', async () => {
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('stallAt forwards until a client sends the text, then nothing until pass', async () => {
  const client = await join()
  const stalled = proxy.stallAt('bc')
  expect(await echo(client, 'a b c')).toBe('a b c')
  const held = echo(client, 'abcd')
  await stalled
  const other = echo(await join(), 'other')
  expect(client.bytesRead).toBe(5)
  proxy.pass()
  expect([await held, await other]).toEqual(['abcd', 'other'])
})

test('cut resets open and new connections until pass', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.cut()
  await closed(client)
  await closed(await join())
  proxy.pass()
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('cutOnce resets open connections and lets new ones pass', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.cutOnce()
  await closed(client)
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('stall holds all bytes back until pass', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.stall()
  let arrived = false
  const echoed = echo(client, 'later').then(text => {
    arrived = true
    return text
  })
  // More turns of the event loop than an echo takes.
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  expect(arrived).toBe(false)
  proxy.pass()
  expect(await echoed).toBe('later')
})

test('slow forwards everything', async () => {
  proxy.slow({ latencyMs: 2, bytesPerSecond: 100_000 })
  const text = 'hello '.repeat(50)
  expect(await echo(await join(), text)).toBe(text)
})

test('blackHole accepts new connections and never answers them', async () => {
  proxy.blackHole()
  const client = await join()
  let arrived = false
  client.once('data', () => {
    arrived = true
  })
  client.write('hello')
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  expect(arrived).toBe(false)
  client.end()
  proxy.pass()
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('cutAfter loses the rest of an answer, then new connections pass', async () => {
  const client = await join()
  await echo(client, 'hello')
  const cut = proxy.cutAfter(3)
  const echoed = echo(client, 'goodbye')
  await cut
  expect(['goo(closed)', '(closed)']).toContain(await echoed)
  expect(await echo(await join(), 'hello')).toBe('hello')
})
