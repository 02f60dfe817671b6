import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, createServer as createHttpServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { drawOperatorKey } from '../../src/operator/operator-keys.ts'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { readEventStream } from '../harness/event-stream.ts'
import {
  completion,
  type ScriptedUpstream,
  sse,
  startScriptedUpstream,
  streamEvents,
} from '../harness/scripted-upstream.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'

let directory: string
let upstream: ScriptedUpstream
let database: TestDatabase
const started: GatewayProcess[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-workers-'))
  upstream = await startScriptedUpstream()
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `
demo: { enabled: false }
detect: { enabled: false }
server: { workers: 2, drain_delay_seconds: 0 }
postgres: { money_connections: 2, general_connections: 2 }
endpoints:
  - name: scripted
    kind: local
    base_url: ${upstream.baseUrl}
    models: [{ id: test-model, price_per_million_usd: { input: 1, output: 2 } }]
`,
  )
})
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.stop()
  const violated = (await audit(database.pool)).filter(check => check.violations > 0)
  expect(violated).toEqual([])
  await database.drop()
})
afterAll(async () => {
  await upstream?.close()
  await rm(directory, { recursive: true })
})

/** Starts two workers with the database of this test; `options` can change both. */
async function startWorkers(options: { args?: string[]; env?: Record<string, string> } = {}): Promise<GatewayProcess> {
  const env = {
    DATABASE_URL: databaseUrl(database.connection),
    SWITCHYARD_DATA: String(database.connection.database),
    ...options.env,
  }
  const gateway = await startGatewayProcess({ directory, args: options.args ?? [], env })
  started.push(gateway)
  return gateway
}

const keyIn = (gateway: GatewayProcess) => /sk-sy-[0-9A-Za-z]{38}/.exec(gateway.output())![0]
const headersOf = (gateway: GatewayProcess) => ({
  authorization: `Bearer ${keyIn(gateway)}`,
  'content-type': 'application/json',
})

function chat(gateway: GatewayProcess, more: object = {}, headers: object = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headersOf(gateway), ...headers },
    body: JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], ...more }),
  })
}

/**
 * The status of a GET; undefined when the connection fails. Without `agent` it opens a new connection, which
 * any worker may get.
 */
async function statusOf(
  url: string,
  agent = new Agent({ keepAlive: false }),
  headers: Record<string, string> = {},
): Promise<number | undefined> {
  try {
    const request = get(url, { agent, headers })
    const [response] = await once(request, 'response')
    await text(response)
    return response.statusCode
  } catch {
    return undefined
  }
}

async function metric(gateway: GatewayProcess, series: string): Promise<number> {
  const { port } = await gateway.logged(({ msg }) => msg === 'metrics are served')
  const lines = (await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).split('\n')
  return Number(lines.find(line => line.startsWith(`${series} `))?.slice(series.length + 1) ?? Number.NaN)
}

/** Waits for the value: a request is counted after its last byte, so the client can be faster. */
async function metricBecomes(gateway: GatewayProcess, series: string, value: number): Promise<void> {
  await eventually(async () => ((await metric(gateway, series)) === value ? true : undefined))
}

const workerPids = (gateway: GatewayProcess) =>
  gateway.log.filter(({ msg }) => msg === 'a worker is serving').map(({ pid }) => pid!)

const CHATS = 'switchyard_http_requests_total{path="/v1/chat/completions",status="200"}'

/** Opens a stream that pauses after its first events until `finish` is called. */
async function openStream(gateway: GatewayProcess): Promise<{ response: Response; finish: () => void }> {
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ pieces: ['One', ' two'] }), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }),
  )
  const response = await chat(gateway, { stream: true })
  expect(response.status).toBe(200)
  return { response, finish: gate.resolve }
}

test('several nodes share one port, one first run, one welcome and one sum of metrics', async () => {
  const gateway = await startWorkers()
  expect(workerPids(gateway)).toHaveLength(2)
  expect(gateway.output().match(/is ready/g)).toHaveLength(1)
  expect(gateway.output().match(/Its API key/g)).toHaveLength(1)
  const nodes = await database.pool.query(`SELECT count(*)::int AS alive FROM node WHERE state = 'alive'`)
  expect(nodes.rows).toEqual([{ alive: 2 }])

  const answers = await Promise.all(Array.from({ length: 12 }, () => chat(gateway)))
  expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200))
  for (const answer of answers) await answer.text()
  await metricBecomes(gateway, CHATS, 12)
  const offer = 'model="test-model",endpoint="scripted",provider="local",hoster=""'
  await metricBecomes(gateway, `switchyard_billed_tokens_total{${offer},kind="input"}`, 120)
  await metricBecomes(gateway, 'switchyard_http_request_duration_seconds_count{path="/v1/chat/completions"}', 12)
  await metricBecomes(gateway, 'switchyard_workers', 2)

  expect(await gateway.stop()).toBe(0)
  expect(gateway.errorLines).toEqual([])
  const left = await database.pool.query(`SELECT count(*)::int AS alive FROM node WHERE state = 'alive'`)
  expect(left.rows).toEqual([{ alive: 0 }])
})

test('a locked balance delays its customer alone, on every worker', async () => {
  const gateway = await startWorkers()
  const cli = { cwd: directory, env: { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: directory } }
  await runCli(['customer', 'add', 'other@example.com'], cli)
  const { stdout } = await runCli(['key', 'issue', 'other@example.com', '--name', 'test'], cli)
  const other = { authorization: `Bearer ${stdout.trim()}` }
  const locked = await database.pool.pg.connect()
  await locked.query(
    `SET idle_in_transaction_session_timeout = 0; BEGIN;
     SELECT FROM balance JOIN customer USING (customer_id) WHERE email <> 'other@example.com' FOR UPDATE OF balance`,
  )
  const statusesOf = async (answers: Promise<Response>[]) => {
    const arrived = await Promise.all(answers)
    for (const answer of arrived) await answer.text()
    return arrived.map(({ status }) => status)
  }
  const stuck = statusesOf(Array.from({ length: 8 }, () => chat(gateway)))
  for (let round = 0; round < 3; round++)
    expect(await statusesOf(Array.from({ length: 6 }, () => chat(gateway, {}, other)))).toEqual(Array(6).fill(200))
  expect(await stuck).toEqual(Array(8).fill(503))
  await locked.query('ROLLBACK')
  locked.release()
  expect(await statusesOf([chat(gateway), chat(gateway)])).toEqual([200, 200])
})

test('the number of requests in flight is the sum over all workers', async () => {
  const gateway = await startWorkers()
  const streams = [await openStream(gateway), await openStream(gateway), await openStream(gateway)]
  await metricBecomes(gateway, 'switchyard_requests_in_flight', 3)
  for (const { response, finish } of streams) {
    finish()
    expect((await readEventStream(response)).done).toBe(true)
  }
  await metricBecomes(gateway, 'switchyard_requests_in_flight', 0)
})

test('a worker that is killed is replaced; the port stays open, and counters do not go down', async () => {
  const gateway = await startWorkers()
  for (let index = 0; index < 6; index++) expect((await chat(gateway)).status).toBe(200)
  await metricBecomes(gateway, CHATS, 6)
  const [victim, other] = workerPids(gateway)
  process.kill(victim!, 'SIGKILL')
  const crash = await gateway.logged(({ msg }) => msg.startsWith('a worker crashed'))
  expect(crash).toMatchObject({ pid: victim, signal: 'SIGKILL' })
  // Until the replacement serves, the other worker gets every new connection.
  expect(await statusOf(`${gateway.url}/readyz`)).toBe(200)
  expect(await metric(gateway, CHATS)).toBe(6)
  await gateway.logged(({ msg, pid }) => msg === 'a worker is serving' && pid !== victim && pid !== other)
  await metricBecomes(gateway, 'switchyard_workers', 2)
  await metricBecomes(gateway, 'switchyard_worker_crashes_total', 1)
  expect((await chat(gateway)).status).toBe(200)
  await metricBecomes(gateway, CHATS, 7)
  expect(await gateway.stop()).toBe(0)
})

test('closes a connection whose worker dies before it confirms the connection', async () => {
  const gateway = await startWorkers()
  const [victim] = workerPids(gateway)
  process.kill(victim!, 'SIGSTOP')
  const statuses: (number | undefined)[] = []
  const asked = Array.from({ length: 6 }, async () => statuses.push(await statusOf(`${gateway.url}/readyz`)))
  // A worker gets its next connection only after it has confirmed the last one.
  await eventually(async () => (statuses.length === 5 ? true : undefined))
  process.kill(victim!, 'SIGKILL')
  await Promise.all(asked)
  expect(statuses).toEqual([200, 200, 200, 200, 200, undefined])
  await gateway.logged(({ msg, pid }) => msg === 'a worker is serving' && pid !== victim)
  expect(await gateway.stop()).toBe(0)
})

test('workers that keep crashing stop the gateway, with a message for the operator', async () => {
  const gateway = await startWorkers()
  let killed = 0
  let isOver = false
  gateway.ended.then(() => {
    isOver = true
  })
  await eventually(async () => {
    for (const pid of workerPids(gateway).slice(killed)) {
      killed += 1
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // The gateway is stopping, and this worker has already ended.
      }
    }
    return isOver || undefined
  })
  expect(await gateway.ended).toBe(1)
  expect(gateway.errorLines.join()).toContain('The workers keep crashing, so the gateway stops.')
  expect(gateway.log.filter(({ msg }) => msg.startsWith('a worker crashed'))).toHaveLength(7)
})

test('Ctrl-C, which every process of a terminal gets, does not end a worker that is still loading', async () => {
  const pressing = join(directory, 'pressing.mjs')
  await writeFile(
    pressing,
    `import cluster from 'node:cluster'
import { registerHooks } from 'node:module'
const load = (url, context, next) => {
  if (url.endsWith('/src/start/serve.ts')) process.kill(process.pid, 'SIGINT')
  return next(url, context)
}
if (cluster.isWorker) registerHooks({ load })`,
  )
  const gateway = await startWorkers({ env: { NODE_OPTIONS: `--import ${pathToFileURL(pressing)}` } })
  expect(gateway.log.filter(({ msg }) => /could not/.test(msg))).toEqual([])
  expect(await gateway.stop()).toBe(0)
})

test('a model that a local server gets later is offered by every worker, also by one that restarts', async () => {
  let models: string[] = []
  await using server = await startLocalServer(() => models)
  const file = join(directory, 'detecting.yaml')
  const detect = `detect: { ports: [${server.port}], repeat_seconds: 1, cloud: false }`
  await writeFile(file, `demo: { enabled: false }\n${detect}\nserver: { workers: 2, drain_delay_seconds: 0 }\n`)
  const gateway = await startWorkers({ env: { SWITCHYARD_CONFIG: file } })
  // Each worker gets new connections in turn. Models are not counted by the request limits.
  const statuses = () =>
    Promise.all(
      Array.from({ length: 4 }, () => statusOf(`${gateway.url}/v1/models/late`, undefined, headersOf(gateway))),
    )
  const becomes = (status: number) =>
    eventually(async () => ((await statuses()).every(each => each === status) ? true : undefined))
  expect(await statuses()).toEqual([404, 404, 404, 404])
  models = ['late']
  await becomes(200)
  expect(gateway.log.map(({ msg }) => msg)).toContain('a local server has new models')
  const answer = await chat(gateway, { model: 'late' })
  expect([answer.status, await answer.text()]).toMatchObject([200, expect.stringContaining('"model":"late"')])

  process.kill(workerPids(gateway)[0]!, 'SIGKILL')
  await eventually(async () => (workerPids(gateway).length === 3 ? true : undefined))
  expect(await statuses()).toEqual([200, 200, 200, 200])
  models = []
  await becomes(404)
  expect(await gateway.stop()).toBe(0)
})

test('a reload that one worker is asked for changes the offers of every worker', async () => {
  const file = join(directory, 'reloaded.yaml')
  const write = (models: readonly string[]) =>
    writeFile(
      file,
      `
demo: { enabled: false }
detect: { enabled: false }
server: { workers: 2, drain_delay_seconds: 0 }
endpoints:
  - name: scripted
    kind: local
    base_url: ${upstream.baseUrl}
    models: [${models.map(id => `{ id: ${id}, price_per_million_usd: { input: 1, output: 2 } }`).join(', ')}]
`,
    )
  await write(['first'])
  const gateway = await startWorkers({ env: { SWITCHYARD_CONFIG: file } })
  const key = drawOperatorKey()
  await database.pool.query(
    `WITH added AS (INSERT INTO person (person_id, email, installation_role)
       VALUES (gen_random_uuid(), 'op@example.com', 'operator') RETURNING person_id)
     SELECT issue_operator_key_as(NULL, $1, person_id, 'test', $2, $3, ARRAY['settings'], NULL, NULL) FROM added`,
    [key.keyId, key.hash, key.hint],
  )
  const reload = async () => {
    const response = await fetch(`${gateway.url}/v1/admin/config/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
      body: '{"reason":"wanted"}',
    })
    return { status: response.status, text: await response.text() }
  }
  await write(['first', 'second'])
  expect(await reload()).toMatchObject({ status: 200, text: expect.stringContaining('models[second]') })
  await eventually(async () => {
    const statuses = Array.from({ length: 4 }, () =>
      statusOf(`${gateway.url}/v1/models/second`, undefined, headersOf(gateway)),
    )
    return (await Promise.all(statuses)).every(status => status === 200) ? true : undefined
  })
  await writeFile(file, 'server: [')
  expect(await reload()).toMatchObject({ status: 400, text: expect.stringContaining('reloaded.yaml:1') })
  expect(await gateway.stop()).toBe(0)
})

describe('SIGTERM to the primary', () => {
  test('lets the streams of every worker finish', async () => {
    const gateway = await startWorkers()
    const streams = [await openStream(gateway), await openStream(gateway), await openStream(gateway)]
    gateway.signal('SIGTERM')
    // New connections go to workers that still serve a stream; those report that they are draining.
    await eventually(async () => ((await statusOf(`${gateway.url}/readyz`)) === 503 ? true : undefined))
    for (const { response, finish } of streams) {
      finish()
      expect(await readEventStream(response)).toMatchObject({ text: 'One two', done: true })
    }
    expect(await gateway.ended).toBe(0)
    expect(await statusOf(`${gateway.url}/readyz`)).toBe(undefined)
    const usage = await database.pool.query('SELECT success, count(*)::int AS count FROM usage_event GROUP BY 1')
    expect(usage.rows).toEqual([{ success: true, count: 3 }])
    expect((await database.pool.query('SELECT FROM lease')).rows).toEqual([])
  })

  test('no worker closes its connections while another one keeps the port open', async () => {
    const gateway = await startWorkers()
    const { response, finish } = await openStream(gateway)
    // Workers get connections in turn, so each has some of these.
    const kept = Array.from({ length: 4 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
    const statuses = () => Promise.all(kept.map(agent => statusOf(`${gateway.url}/healthz`, agent)))
    expect(await statuses()).toEqual([200, 200, 200, 200])
    const sockets = kept.flatMap(agent => Object.values(agent.freeSockets).flatMap(free => free ?? []))
    const closed = sockets.map(socket => once(socket, 'close'))
    gateway.signal('SIGTERM')
    await gateway.logged(({ msg }) => msg.startsWith('draining'))
    // Longer than an idle worker keeps answering after the port is closed.
    const endMs = performance.now() + 1_500
    while (performance.now() < endMs) expect(await statuses()).toEqual([200, 200, 200, 200])
    expect(sockets.map(socket => socket.destroyed)).toEqual([false, false, false, false])
    finish()
    expect(await readEventStream(response)).toMatchObject({ text: 'One two', done: true })
    await Promise.all(closed)
    expect(await gateway.ended).toBe(0)
  })

  test('answers connections that reached the port before it closed', async () => {
    const gateway = await startWorkers()
    const { response, finish } = await openStream(gateway)
    gateway.signal('SIGTERM')
    await eventually(async () => ((await statusOf(`${gateway.url}/readyz`)) === 503 ? true : undefined))
    // The connections below arrive when the workers have drained and the primary does not know it yet.
    process.kill(gateway.pid, 'SIGSTOP')
    finish()
    expect((await readEventStream(response)).done).toBe(true)
    // The primary accepts one connection per turn of its event loop, so after a few turns most of them still wait.
    const sockets = Array.from({ length: 100 }, () => connect(Number(new URL(gateway.url).port), '127.0.0.1'))
    const answers = sockets.map(socket => text(socket.setEncoding('utf8')).catch(String))
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    for (const socket of sockets) socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    process.kill(gateway.pid, 'SIGCONT')
    expect((await Promise.all(answers)).map(answer => answer.slice(0, 12))).toEqual(Array(100).fill('HTTP/1.1 200'))
    expect(await gateway.ended).toBe(0)
  })

  test('a second SIGTERM ends streams with an error chunk', async () => {
    const gateway = await startWorkers()
    const { response, finish } = await openStream(gateway)
    gateway.signal('SIGTERM')
    await gateway.logged(({ msg }) => msg.startsWith('draining'))
    expect(await gateway.stop()).toBe(0)
    expect(await readEventStream(response)).toMatchObject({ done: false, error: { code: 'server_shutdown' } })
    finish()
  })
})

test('workers end when their primary is killed, and the next start returns their leases', async () => {
  const gateway = await startWorkers({ env: { DATABASE_URL: '', SWITCHYARD_DATA: 'killed' } })
  expect((await chat(gateway)).status).toBe(200)
  const { response, finish } = await openStream(gateway)
  gateway.signal('SIGKILL')
  expect(await gateway.ended).toBe('SIGKILL')
  await expect(response.text()).rejects.toThrow()
  finish()
  for (const pid of workerPids(gateway)) await eventually(async () => (isAlive(pid) ? undefined : true))

  const next = await startWorkers({ env: { DATABASE_URL: '', SWITCHYARD_DATA: 'killed' } })
  expect(next.output()).not.toContain('sk-sy-')
  // The log does not say whether the charge was committed before: the journal keeps a record for a while after
  // its commit.
  const replayed = await next.logged(fact => 'replayed' in fact)
  expect(replayed).toMatchObject({
    replayed: 1,
    msg: expect.stringMatching(/^replayed the charges in the journal .*; none is charged twice$/),
  })
  const reclaimed = await next.logged(({ msg }) => msg === 'reclaimed leases of dead nodes')
  expect(reclaimed).toMatchObject({ worker: 1, leases: 1 })
  expect(await next.stop()).toBe(0)
  const books = await runCli(['ledger', 'audit'], { cwd: directory, env: { SWITCHYARD_DATA: 'killed' } })
  expect(books.code, books.stdout).toBe(0)
})

test('all workers share the embedded PostgreSQL, which stops last', async () => {
  const gateway = await startWorkers({ args: ['--workers', '3'], env: { DATABASE_URL: '', SWITCHYARD_DATA: 'own' } })
  expect(workerPids(gateway)).toHaveLength(3)
  expect((await chat(gateway)).status).toBe(200)
  const pidFile = join(directory, 'own', 'postgres', 'postmaster.pid')
  expect(existsSync(pidFile)).toBe(true)
  const second = startGatewayProcess({ directory, env: { SWITCHYARD_DATA: 'own' } })
  await expect(second).rejects.toThrow(`Another Switchyard server (process ${gateway.pid}`)
  expect(await gateway.stop()).toBe(0)
  expect(existsSync(pidFile)).toBe(false)
  // No worker logged an error of the stopping database: all had closed their connections before.
  expect(gateway.log.filter(({ msg }) => /broke|lost|could not/.test(msg))).toEqual([])
})

test('a port that is taken is reported once, in one sentence', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  await expect(startWorkers({ env: { PORT: String(port) } })).rejects.toThrow(
    new RegExp(`^The gateway ended first: Port ${port} on 127.0.0.1 is taken by another program[^\\n]*$`),
  )
  other.close()
})

test('a port that another Switchyard server uses is reported as such', async () => {
  const gateway = await startWorkers({ args: ['--workers', '1'] })
  const { port } = new URL(gateway.url)
  await expect(startWorkers({ env: { PORT: port, SWITCHYARD_DATA: 'second' } })).rejects.toThrow(
    `The gateway ended first: Another Switchyard server is already running at ${gateway.url}. Stop it, or choose another port with --port or PORT.`,
  )
})

test('more workers than allowed are a usage error', async () => {
  const run = await runCli(['start', '--workers', '65'], { cwd: directory })
  expect(run.code).toBe(2)
  expect(run.stderr).toContain('It must be a whole number from 1 to 64.')
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** A model server that lists these models and answers every chat. */
async function startLocalServer(models: () => readonly string[]): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createHttpServer((request, response) => {
    const body = request.method === 'POST' ? completion() : { data: models().map(id => ({ id, max_model_len: 8_192 })) }
    request.resume()
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
