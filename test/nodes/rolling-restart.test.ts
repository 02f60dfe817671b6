import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { freePort } from '../../bench/free-port.ts'
import { databaseUrl, sourceProgram } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from './gateway-process.ts'

const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 3 })
const keyIn = (gateway: GatewayProcess) => /sk-sy-[0-9A-Za-z]{38}/.exec(gateway.output())![0]

/** Sends a chat on a new connection. Returns its status; 0 when the connection fails. */
function chat(url: string, key: string): Promise<number> {
  return new Promise(resolve => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    request(`${url}/v1/chat/completions`, { method: 'POST', headers, agent: false }, response => {
      response.resume().on('close', () => resolve(response.complete ? response.statusCode! : 0))
    })
      .on('error', () => resolve(0))
      .end(body)
  })
}

/** Starts gateways with one database. The delay before a drain only ends with a further signal. */
async function useGateways(undo: AsyncDisposableStack, workers: number) {
  const database = await createTestDatabase()
  undo.defer(() => database.drop())
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-rolling-'))
  undo.defer(() => rm(directory, { recursive: true }))
  const settings = { workers, drain_delay_seconds: 3_600 }
  const unlimited = { requests_per_minute: 1_000_000, requests_per_day: 1_000_000, daily_spend_cap_usd: '1000' }
  await writeFile(
    join(directory, 'switchyard.yaml'),
    JSON.stringify({
      server: settings,
      detect: { enabled: false },
      demo: { tokens_per_second: 10_000 },
      account_tiers: { standard: unlimited, free: unlimited },
      postgres: { money_connections: 2, general_connections: 2 },
    }),
  )
  return async (number: number, port: number, program = sourceProgram) => {
    const env = {
      DATABASE_URL: databaseUrl(database.connection),
      SWITCHYARD_DATA: join(directory, String(number)),
      SWITCHYARD_MASTER_KEY: 'a'.repeat(64),
      PORT: String(port),
    }
    const gateway = await startGatewayProcess({ directory, env, program })
    undo.defer(async () => void (await gateway.stop()))
    return gateway
  }
}

/** A round robin over the addresses whose last check of /readyz was a 200. It never sends a request twice. */
async function startRoundRobin(undo: AsyncDisposableStack, urls: readonly string[]) {
  const nodes = urls.map(url => ({ url, isReady: true, running: 0 }))
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const ready = nodes.filter(({ isReady }) => isReady)
    const node = ready[turn++ % ready.length]
    if (node === undefined) return void outgoing.writeHead(502).end()
    node.running++
    outgoing.on('close', () => node.running--)
    const { method, headers, url } = incoming
    const onward = request(`${node.url}${url}`, { method: method!, headers, agent: false }, answer => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    onward.on('error', () => outgoing.writeHead(502).end())
    incoming.pipe(onward)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const stopping = new AbortController()
  const { signal } = stopping
  const checks = nodes.map(async node => {
    while (!signal.aborted) {
      node.isReady = await fetch(`${node.url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      )
      await delay(20, undefined, { signal }).catch(() => {})
    }
  })
  undo.defer(async () => {
    stopping.abort()
    await Promise.all(checks)
    server.close()
    server.closeAllConnections()
  })
  const once = (isTrue: () => boolean) => eventually(async () => isTrue() || undefined)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ready: (index: number) => once(() => nodes[index]!.isReady),
    left: (index: number) => once(() => !nodes[index]!.isReady && nodes[index]!.running === 0),
  }
}

describe.each([1, 2])('with %i workers', workers => {
  // Went wrong: a node refused requests from SIGTERM on, before a load balancer could know (issue 35).
  test('a rolling restart behind a round robin fails no request', async () => {
    await using undo = new AsyncDisposableStack()
    const start = await useGateways(undo, workers)
    const ports = [await freePort(), await freePort()]
    const nodes = [await start(0, ports[0]!), await start(1, ports[1]!)]
    const key = keyIn(nodes[0]!)
    const balancer = await startRoundRobin(
      undo,
      nodes.map(({ url }) => url),
    )
    const statuses: number[] = []
    let isOver = false
    const clients = Array.from({ length: 3 }, async () => {
      while (!isOver) statuses.push(await chat(balancer.url, key))
    })
    for (const [index, node] of nodes.entries()) {
      node.signal('SIGTERM')
      await node.logged(({ msg }) => msg.startsWith('/readyz is 503'))
      // The balancer may or may not have noticed.
      expect(await chat(node.url, key)).toBe(200)
      await balancer.left(index)
      expect(await chat(node.url, key)).toBe(200)
      expect(await node.stop()).toBe(0)
      // The second one need not start again to show that no request fails.
      if (index === 1) break
      await start(index, ports[index]!)
      await balancer.ready(index)
    }
    isOver = true
    await Promise.all(clients)
    expect(new Set(statuses)).toEqual(new Set([200]))
  })

  // Went wrong: SIGHUP stopped the gateway, even one that was started with nohup (issue 35).
  test('SIGHUP to every process stops nothing, also under nohup', async () => {
    await using undo = new AsyncDisposableStack()
    const start = await useGateways(undo, workers)
    const gateway = await start(0, 0, ['nohup', ...sourceProgram])
    const pids = gateway.log.filter(({ msg }) => msg === 'a worker is serving').map(({ pid }) => pid!)
    for (const pid of [gateway.pid, ...pids]) process.kill(pid, 'SIGHUP')
    await gateway.logged(({ msg }) => msg.startsWith('the configuration was read again'))
    expect(await chat(gateway.url, keyIn(gateway))).toBe(200)
    // A Ctrl-C does not wait for a load balancer.
    gateway.signal('SIGINT')
    expect(await gateway.ended).toBe(0)
    expect(gateway.log.map(({ msg }) => msg)).not.toContainEqual(expect.stringMatching(/^\/readyz is 503/))
  })
})
