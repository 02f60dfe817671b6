// node scripts/try-nginx.ts [nginx]: starts deploy/nginx.conf in front of two gateways, on loopback and without privileges, and checks what only a
// real nginx shows. Needs nginx, Debian's package for example. `nginx` is the path of the program.
import { execFile, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../bench/free-port.ts'
import { createPool } from '../src/base/db/pool.ts'
import { openCustomer, USD } from '../test/chaos/customer.ts'
import { eventually } from '../test/chaos/eventually.ts'
import { type GatewayProcess, startGateway } from '../test/chaos/gateway-process.ts'
import { createPostgres } from '../test/chaos/postgres.ts'
import { readPage } from '../test/docs/page.ts'
import { killOnExit, removeOnExit } from '../test/harness/clean-up-on-exit.ts'
import { startFaultProxy } from '../test/harness/fault-proxy.ts'
import { answer, sse, startScriptedUpstream, streamEvents } from '../test/harness/scripted-upstream.ts'

const program = process.argv[2] ?? 'nginx'
const MODEL = 'test-model'
/** How many keys send requests: enough for each node to be the first choice of some. */
const KEYS = 16
/** What one address may get wrong: see src/identity/people/sign-in-throttle.ts. */
const WRONG_SIGN_INS = 50
const CHECK_MS_MAX = 60_000
const FIRST_WORD = 'first'
/** The kinds of files that nginx keeps for a while, by default where only root may write. */
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/** Upstreams send only the first word of a stream until this resolves. */
let restOfStreams: Promise<void> = Promise.resolve()

const version = await versionOf(program)
/** Older versions of the free edition look names up once. */
const looksNamesUp = version >= 1_027_003
const directory = mkdtempSync(join(tmpdir(), 'switchyard-nginx-'))
// nginx that is started by root has workers of another account.
chmodSync(directory, 0o755)
removeOnExit(directory, 'files')
await using cleanUp = new AsyncDisposableStack()
cleanUp.defer(() => rm(directory, { recursive: true, force: true }))

const postgres = await createPostgres({ durable: false })
cleanUp.defer(() => postgres.remove())
const pool = createPool(postgres.connection, { max: 2, applicationName: 'try-nginx', statementTimeoutMs: 30_000 })
cleanUp.defer(() => pool.end())
// PostgreSQL itself listens on a socket of this account only.
const database = await startFaultProxy(postgres.connection)
cleanUp.defer(() => database.close())
const first = await startNode('first')
const second = await startNode('second')
const customers = await Promise.all(Array.from({ length: KEYS }, () => openCustomer(pool, 10n * USD)))
const keys = customers.map(({ key }) => key)
const names = await startNameServer({ 'gateway-1': '127.0.0.1', 'gateway-2': '127.0.0.1' })
const port = await startNginx()

await check('the addresses of clients arrive', async () => {
  const signIn = (number: number, from: string) => signInFrom(from, `nobody-${number}@example.com`)
  for (let n = 0; n < WRONG_SIGN_INS; n += 5) {
    const statuses = await Promise.all([0, 1, 2, 3, 4].map(more => signIn(n + more, '127.0.0.2')))
    for (const status of statuses) equal(status, 401, 'a wrong sign-in')
  }
  // From here on, each wrong sign-in doubles the wait: 1 s, 2 s, and so on.
  let n = WRONG_SIGN_INS
  while ((await signIn(n, '127.0.0.2')) !== 429)
    if (++n > WRONG_SIGN_INS + 20) throw new Error('the address is not slowed down')
  equal(await signIn(n + 1, '127.0.0.3'), 401, 'a sign-in from another address')
})

await check('streams are not buffered', async () => {
  const stream = await openStream(keys[0]!)
  stream.finish()
  equal(await stream.isComplete, true, 'the rest of the stream arrived')
})

await check('a draining node gets no new requests', async () => {
  equal((await servedBy()).size, 2, 'nodes that serve')
  const stream = await openStream(await keyOf(first))
  first.gateway.signal('SIGTERM')
  // Until the node refuses, which it does without a delay here.
  await eventually('the node drains', async () => (await fetch(`${first.gateway.url}/readyz`)).status === 503)
  equal([...(await servedBy())].join(), second.name, 'nodes that serve while the first one drains')
  stream.finish()
  equal(await stream.isComplete, true, 'the stream of the draining node ended as usual')
  equal((await first.gateway.exited).code, 0, 'exit code')
  equal([...(await servedBy())].join(), second.name, 'nodes that serve without the first one')
})

if (looksNamesUp)
  await check('names of nodes are looked up again', async () => {
    const third = await startNode('third')
    await forward('127.0.0.2', portOf(first.gateway), portOf(third.gateway))
    names.set('gateway-1', '127.0.0.2')
    const ms = await eventually('requests reach the new address', async () => (await servedBy()).has(third.name), {
      timeoutMs: CHECK_MS_MAX,
      everyMs: 200,
    })
    return `after ${(ms / 1000).toFixed(1)} s`
  })
else console.log('left out: names of nodes are looked up again, for which nginx 1.27.3 is needed')

interface Node {
  readonly name: string
  readonly gateway: GatewayProcess
}

async function startNode(name: string): Promise<Node> {
  // Only this node asks it, and it answers with the name of the node.
  const upstream = await startScriptedUpstream({ models: [MODEL] })
  cleanUp.defer(() => upstream.close())
  const whole = answer({ text: name })
  const pieces = [FIRST_WORD, ' rest']
  // The first event has the role.
  const stream = sse(streamEvents({ pieces }), { beforeEvent: index => (index === 2 ? restOfStreams : undefined) })
  upstream.always((asked, response) => (asked.body.stream === true ? stream : whole)(asked, response))
  const configFile = join(directory, `${name}.yaml`)
  const price = { input: '1', output: '1' }
  // JSON is valid YAML.
  const config = {
    server: { trusted_proxies: ['127.0.0.1'], drain_delay_seconds: 0 },
    endpoints: [
      {
        name: 'scripted',
        kind: 'local',
        base_url: upstream.baseUrl,
        models: [{ id: MODEL, price_per_million_usd: price }],
      },
    ],
    demo: { enabled: false },
    detect: { enabled: false },
  }
  writeFileSync(configFile, JSON.stringify(config))
  const masterKey = '0'.repeat(64)
  const gateway = await startGateway({ name, directory, configFile, database: database.connection, masterKey })
  cleanUp.defer(async () => {
    gateway.signal('SIGKILL')
    await gateway.exited
  })
  await gateway.ready()
  return { name, gateway }
}

/** Starts deploy/nginx.conf with the addresses of this run, and returns its port. */
async function startNginx(): Promise<number> {
  const listen = await freePort()
  const edits: (readonly [string, string])[] = [
    ['http {', `http {\n${temporary.map(kind => `  ${kind}_temp_path ${join(directory, kind)};`).join('\n')}`],
    ['worker_processes auto', 'worker_processes 1'],
    ['worker_rlimit_nofile 65536;', ''],
    ['worker_connections 16384', 'worker_connections 512'],
    ['listen 8080;', `listen 127.0.0.1:${listen};`],
    ['resolver 127.0.0.11 valid=5s', `resolver 127.0.0.1:${names.port} valid=1s`],
    ['gateway-1:8080', `${looksNamesUp ? 'gateway-1' : '127.0.0.1'}:${portOf(first.gateway)}`],
    ['gateway-2:8080', `${looksNamesUp ? 'gateway-2' : '127.0.0.1'}:${portOf(second.gateway)}`],
    ...(looksNamesUp ? [] : ([[' resolve;', ';']] as const)),
  ]
  let config = readPage('deploy/nginx.conf')
  for (const [sample, here] of edits) {
    if (!config.includes(sample)) throw new Error(`deploy/nginx.conf no longer has "${sample}".`)
    config = config.replaceAll(sample, here)
  }
  const file = join(directory, 'nginx.conf')
  writeFileSync(file, config)
  const main = `daemon off; pid ${join(directory, 'pid')}; error_log stderr crit;`
  const nginx = spawn(program, ['-p', directory, '-e', 'stderr', '-c', file, '-g', main], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  killOnExit(nginx)
  const ended = once(nginx, 'exit')
  cleanUp.defer(async () => {
    nginx.kill('SIGTERM')
    await ended
  })
  const isServing = async () => {
    if (nginx.exitCode !== null) throw new Error(`nginx ended with ${nginx.exitCode}`)
    return await fetch(`http://127.0.0.1:${listen}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  await eventually('nginx serves', isServing, { timeoutMs: CHECK_MS_MAX })
  return listen
}

interface NameServer {
  readonly port: number
  set(name: string, address: string): void
}

/** A name server that knows these names, each with one IPv4 address. */
async function startNameServer(known: Record<string, string>): Promise<NameServer> {
  const addresses = new Map(Object.entries(known))
  const socket = createSocket('udp4')
  cleanUp.defer(() => void socket.close())
  socket.on('message', (query, from) => {
    // RFC 1035, 4.1: a header of 12 bytes, then the labels of the name, each with its length before it, and an empty one.
    const labels: string[] = []
    let at = 12
    for (; query[at]! > 0; at += query[at]! + 1) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!))
    const question = query.subarray(12, at + 5)
    const address = addresses.get(labels.join('.'))
    const found = address === undefined ? 0 : 1
    const head = Buffer.concat([
      query.subarray(0, 2),
      Buffer.from([0x85, found === 1 ? 0x80 : 0x83, 0, 1, 0, found, 0, 0, 0, 0]),
    ])
    // The name of the question, type A, class IN, a second to live, 4 bytes.
    const answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...(address ?? '').split('.').map(Number)]
    socket.send(Buffer.concat([head, question, Buffer.from(found === 1 ? answer : [])]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return { port: socket.address().port, set: (name, address) => void addresses.set(name, address) }
}

/** Passes connections to an address on to a port of 127.0.0.1. */
async function forward(address: string, from: string, to: string): Promise<void> {
  const server = createServer(incoming => {
    const outgoing = connect(Number(to), '127.0.0.1')
    incoming.pipe(outgoing).pipe(incoming)
    for (const socket of [incoming, outgoing]) socket.on('error', () => incoming.destroy())
  }).listen(Number(from), address)
  await once(server, 'listening')
  cleanUp.defer(() => void server.close())
}

/** Sends a request with every key. Returns the nodes that served them. Throws if one was not served. */
async function servedBy(): Promise<Set<string>> {
  const served = new Set<string>()
  for (const key of keys) served.add(await nodeOf(key))
  return served
}

async function keyOf(node: Node): Promise<string> {
  for (const key of keys) if ((await nodeOf(key)) === node.name) return key
  throw new Error(`${node.name} serves none of ${keys.length} keys`)
}

/** Sends a request. Returns the node that served it, which is its answer. */
async function nodeOf(key: string): Promise<string> {
  const response = await chat(key, false)
  const body = await response.text()
  if (!response.ok) throw new Error(`a request got ${response.status} ${body}`)
  return JSON.parse(body).choices[0].message.content
}

interface OpenStream {
  /** Lets the upstream send all but the first word. */
  finish(): void
  readonly isComplete: Promise<boolean>
}

/** Opens a stream. Resolves when its first word is here, of which the upstream has not sent more yet. */
async function openStream(key: string): Promise<OpenStream> {
  const { promise, resolve } = Promise.withResolvers<void>()
  restOfStreams = promise
  const response = await chat(key, true)
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

function chat(key: string, stream: boolean): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, stream, max_tokens: 100, messages: [{ role: 'user', content: 'Hello!' }] }),
    signal: AbortSignal.timeout(CHECK_MS_MAX),
  })
}

/** Returns the status of a sign-in with a wrong password, over a connection from an address of the loopback network. */
async function signInFrom(localAddress: string, email: string): Promise<number | undefined> {
  const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' }
  const outgoing = request(`http://127.0.0.1:${port}/console/api/sign-in`, { method: 'POST', localAddress, headers })
  outgoing.end(JSON.stringify({ email, password: 'not the password' }))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

async function check(what: string, run: () => Promise<string | undefined>): Promise<void> {
  try {
    const note = await run()
    console.log(`ok: ${what}${note === undefined ? '' : `, ${note}`}`)
  } catch (error) {
    console.log(`FAILED: ${what}: ${(error as Error).message}`)
    process.exitCode = 1
  }
}

function equal<T>(found: T, expected: T, what: string): void {
  if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`)
}

function portOf({ url }: GatewayProcess): string {
  return new URL(url).port
}

/** Returns 1.28.3 as 1028003. */
async function versionOf(nginx: string): Promise<number> {
  const { stderr } = await promisify(execFile)(nginx, ['-v'])
  console.log(stderr.trim())
  const [major, minor, patch] = /nginx\/(\d+)\.(\d+)\.(\d+)/.exec(stderr)!.slice(1).map(Number)
  return major! * 1_000_000 + minor! * 1_000 + patch!
}
