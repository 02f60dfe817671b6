import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts'

// Instead of PostgreSQL, a server that answers each line with itself.
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

/** `once` would reject: a reset is an error too. */
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
  const hear = (bytes: Buffer) => {
    seen += bytes
    if (seen.length >= text.length) whole.resolve()
  }
  client.on('data', hear)
  const ending = await Promise.race([whole.promise, closed(client).then(() => '(closed)')])
  client.off('data', hear)
  return seen + (ending ?? '')
}

test('passes bytes both ways', async () => {
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('cut: who is connected is reset, who comes too, until it passes again', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.cut()
  await closed(client)
  await closed(await join())
  proxy.pass()
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('cut once: who is connected is reset, who comes is not', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.cutOnce()
  await closed(client)
  expect(await echo(await join(), 'hello')).toBe('hello')
})

test('stall: nothing arrives until it passes, then all of it', async () => {
  const client = await join()
  await echo(client, 'hello')
  proxy.stall()
  let arrived = false
  const echoed = echo(client, 'later').then(text => {
    arrived = true
    return text
  })
  // As many turns of the loop as the echo took before, and more.
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  expect(arrived).toBe(false)
  proxy.pass()
  expect(await echoed).toBe('later')
})

test('slow: everything arrives', async () => {
  proxy.slow({ latencyMs: 2, bytesPerSecond: 100_000 })
  const text = 'hello '.repeat(50)
  expect(await echo(await join(), text)).toBe(text)
})

test('black hole: new connections are taken and never answered, and can be given up', async () => {
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

test('cut after so many bytes of answers: the rest is lost, then it passes', async () => {
  const client = await join()
  await echo(client, 'hello')
  const cut = proxy.cutAfter(3)
  const echoed = echo(client, 'goodbye')
  await cut
  expect(['goo(closed)', '(closed)']).toContain(await echoed)
  expect(await echo(await join(), 'hello')).toBe('hello')
})
