import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect, createServer, type Server } from 'node:net'
import { eventually } from '../../test/chaos/eventually.ts'
import { Client } from './client.ts'
import type { NameServer } from './name-server.ts'
import type { RunningProxy } from './proxy.ts'
import { FIRST_WORD, LOCAL_MODEL, type Node, type TwoGateways } from './two-gateways.ts'

const CLIENT = '127.0.0.2'
const OTHER_CLIENT = '127.0.0.3'
const CHECK_MS_MAX = 60_000

/** Wrong passwords are counted by the address of the client, whatever it writes to X-Forwarded-For itself. */
export async function checkAddresses(origin: string, { wrongSignIns }: TwoGateways): Promise<void> {
  const signIns = [{ from: CLIENT }, { from: CLIENT, forged: '198.51.100.7' }, { from: OTHER_CLIENT, forged: CLIENT }]
  for (const signIn of signIns) equal(await signInFrom(origin, signIn), 401, 'a sign-in with a wrong password')
  const expected = { [CLIENT]: 2, [OTHER_CLIENT]: 1 }
  equal(JSON.stringify(await wrongSignIns()), JSON.stringify(expected), 'wrong passwords by address')
}

/** Forwarded chunks arrive while the rest of the stream is not there yet. */
export async function checkStreams(origin: string, world: TwoGateways): Promise<void> {
  const stream = await openStream(origin, world, world.keys[0]!)
  stream.finish()
  equal(await stream.isComplete, true, 'the rest of the stream arrived')
}

/** A gateway that stops gets no new requests before it refuses them, and ends the ones that it has. Starts it again. */
export async function checkDraining(origin: string, world: TwoGateways): Promise<void> {
  const { first, second } = world
  equal((await servedBy(origin, world)).size, 2, 'nodes that serve')
  const stream = await openStream(origin, world, await keyOf(origin, world, first))
  first.gateway.signal('SIGTERM')
  const isSecondAlone = async () => [...(await servedBy(origin, world))].join() === second.name
  await eventually('only the other node serves', isSecondAlone, { timeoutMs: CHECK_MS_MAX, everyMs: 200 })
  stream.finish()
  equal(await stream.isComplete, true, 'the stream of the stopping node ended as usual')
  equal((await first.gateway.exited).code, 0, 'exit code')
  equal(await isSecondAlone(), true, 'the other node serves alone')
  await first.start()
  await eventually('both nodes serve again', async () => (await servedBy(origin, world)).size === 2, {
    timeoutMs: CHECK_MS_MAX,
    everyMs: 200,
  })
}

/** A name that leads to another address leads requests there. Returns after how many seconds. */
export async function checkNames({ origin }: RunningProxy, world: TwoGateways, names: NameServer): Promise<string> {
  const third = await world.startNode('third')
  const server = await forward(CLIENT, world.first.port, third.port)
  world.first.gateway.signal('SIGTERM')
  await world.first.gateway.exited
  names.set('gateway-1', CLIENT)
  try {
    const ms = await eventually(
      'requests reach the new address',
      async () => (await servedBy(origin, world)).has(third.name),
      { timeoutMs: CHECK_MS_MAX, everyMs: 200 },
    )
    return `after ${(ms / 1000).toFixed(1)} s`
  } finally {
    server.close()
  }
}

/** Passes connections to an address on to another port of 127.0.0.1. */
async function forward(address: string, from: number, to: number): Promise<Server> {
  const server = createServer(incoming => {
    const outgoing = connect(to, '127.0.0.1')
    incoming.pipe(outgoing).pipe(incoming)
    for (const socket of [incoming, outgoing]) socket.on('error', () => incoming.destroy())
  }).listen(from, address)
  await once(server, 'listening')
  return server
}

/** Sends a request with every key. Returns the nodes that served them. Throws if one was not served. */
async function servedBy(origin: string, { keys }: TwoGateways): Promise<Set<string>> {
  const served = new Set<string>()
  for (const key of keys) served.add(await nodeOf(origin, key))
  return served
}

async function keyOf(origin: string, { keys }: TwoGateways, node: Node): Promise<string> {
  for (const key of keys) if ((await nodeOf(origin, key)) === node.name) return key
  throw new Error(`${node.name} serves none of ${keys.length} keys`)
}

/** Sends a request over a new connection. Returns the node that served it, which is its answer. */
async function nodeOf(origin: string, key: string): Promise<string> {
  const client = new Client(origin, key)
  try {
    const response = await client.ask({ model: LOCAL_MODEL, stream: false, prompt: 'Hello!' })
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
    return choices[0]!.message.content
  } finally {
    await client.close()
  }
}

interface OpenStream {
  /** Lets the upstream send all but the first word. */
  finish(): void
  readonly isComplete: Promise<boolean>
}

/** Opens a stream. Resolves when its first word is here, of which the upstream has not sent more yet. */
async function openStream(origin: string, world: TwoGateways, key: string): Promise<OpenStream> {
  const { promise, resolve } = Promise.withResolvers<void>()
  world.holdStreams(promise)
  const response = await new Client(origin, key).ask({ model: LOCAL_MODEL, stream: true, prompt: 'Hello!' })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let received = ''
  const read = async (until: string) => {
    for (;;) {
      if (received.includes(until)) return true
      const { done, value } = await reader.read()
      if (done) return false
      received += value
    }
  }
  if (!(await read(FIRST_WORD))) throw new Error(`the stream ended before its first word: ${received}`)
  return {
    finish: resolve,
    get isComplete() {
      return read('[DONE]')
    },
  }
}

/** Returns the status of a sign-in with a wrong password, over a connection from an address of the loopback network. */
async function signInFrom(
  origin: string,
  { from, forged }: { readonly from: string; readonly forged?: string },
): Promise<number | undefined> {
  const headers = {
    'content-type': 'application/json',
    'sec-fetch-site': 'same-origin',
    ...(forged !== undefined && { 'x-forwarded-for': forged }),
  }
  const url = `${origin}/console/api/sign-in`
  const outgoing = request(url, { method: 'POST', localAddress: from, headers, agent: false })
  outgoing.end(JSON.stringify({ email: 'nobody@example.com', password: 'not the password' }))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

function equal<T>(found: T, expected: T, what: string): void {
  if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`)
}
