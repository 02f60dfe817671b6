import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cpus } from 'node:os'
import { WebSocketServer } from 'ws'
import type { Endpoint } from '../src/base/domain/offer.ts'
import { UpstreamClient, type UpstreamRequest } from '../src/wire/upstreams/upstream-client.ts'
import { benchEndpoint, startGatewaySide } from './agent/gateway-side.ts'
import { Mux } from './agent/mux.ts'
import { percentile } from './percentile.ts'

/**
 * `npm run bench:agent`: what the way over an agent adds to the first token, for one WebSocket per request and for one that
 * all requests share. See bench/README.md.
 */

const SEQUENTIAL = 400
const ROUNDS = 5
const AT_ONCE = 200
const body = JSON.stringify({ model: 'bench', stream: true, messages: [{ role: 'user', content: 'x'.repeat(2_000) }] })

interface Path {
  readonly name: string
  readonly client: UpstreamClient
  readonly endpoint: Endpoint
  /** Null: there is no agent. */
  readonly agent: ChildProcess | null
  readonly sequentialMs: number[]
  cpuGatewayMs: number
  cpuAgentMs: number
  burstMs: number[]
  burstFailed: number
}

const upstream = fork(new URL('./agent/upstream-process.ts', import.meta.url))
const [{ port }] = (await once(upstream, 'message')) as [{ port: number }]
const baseUrl = `http://127.0.0.1:${port}/v1`

const paths: Path[] = [
  newPath('direct', new UpstreamClient({ version: 'bench' }), benchEndpoint(baseUrl), null),
  await perRequest(),
  await multiplexed(),
]
await ready()
for (let round = -1; round < ROUNDS; round++) {
  for (const path of paths) await measureSequential(path, round < 0)
}
for (let round = -1; round < ROUNDS; round++) {
  for (const path of paths) await measureBurst(path, round < 0)
}
const report = reportText()
writeFileSync(new URL('./results/agent.md', import.meta.url), report)
process.stdout.write(report)
for (const { agent } of paths) agent?.kill()
upstream.kill()
process.exit()

function newPath(name: string, client: UpstreamClient, endpoint: Endpoint, agent: ChildProcess | null): Path {
  const figures = { sequentialMs: [], cpuGatewayMs: 0, cpuAgentMs: 0, burstMs: [], burstFailed: 0 }
  return { name, client, endpoint, agent, ...figures }
}

async function perRequest(): Promise<Path> {
  const gateway = await startGatewaySide()
  const agent = startAgent('per request', gateway.port)
  return newPath('one WebSocket per request', gateway.client, benchEndpoint('http://agent.invalid/v1', 'agent'), agent)
}

async function multiplexed(): Promise<Path> {
  const server = createServer()
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const agent = startAgent('multiplexed', (server.address() as AddressInfo).port)
  const [socket] = await once(sockets, 'connection')
  const mux = new Mux(socket, () => {})
  const client = new UpstreamClient({
    version: 'bench',
    agents: {
      take(_endpointId, _model, onTaken) {
        onTaken(mux.open())
        return () => {}
      },
    },
  })
  return newPath('one multiplexed WebSocket', client, benchEndpoint('http://agent.invalid/v1', 'agent'), agent)
}

function startAgent(shape: string, gatewayPort: number): ChildProcess {
  const args = [shape, `http://127.0.0.1:${gatewayPort}`, baseUrl]
  return fork(new URL('./agent/agent-process.ts', import.meta.url), args)
}

async function ready(): Promise<void> {
  for (const path of paths) {
    while ((await firstTokenMs(path)) === null) await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function measureSequential(path: Path, isWarmUp: boolean): Promise<void> {
  const before = await cpuMs(path)
  const times: number[] = []
  for (let i = 0; i < SEQUENTIAL / ROUNDS; i++) times.push((await firstTokenMs(path)) ?? Number.NaN)
  const after = await cpuMs(path)
  if (isWarmUp) return
  path.sequentialMs.push(...times)
  path.cpuGatewayMs += after.gateway - before.gateway
  path.cpuAgentMs += after.agent - before.agent
}

async function measureBurst(path: Path, isWarmUp: boolean): Promise<void> {
  const running = Promise.all(Array.from({ length: AT_ONCE }, () => firstTokenMs(path)))
  const times = await running
  if (isWarmUp) return
  path.burstMs.push(...times.filter(time => time !== null))
  path.burstFailed += times.filter(time => time === null).length
}

async function cpuMs({ agent }: Path): Promise<{ gateway: number; agent: number }> {
  const { user, system } = process.cpuUsage()
  const gateway = (user + system) / 1000
  if (agent === null) return { gateway, agent: 0 }
  agent.send('cpu')
  const [{ cpuMs }] = (await once(agent, 'message')) as [{ cpuMs: number }]
  return { gateway, agent: cpuMs }
}

/** Sends a request and reads its stream to the end. Null: it failed. */
async function firstTokenMs({ client, endpoint }: Path): Promise<number | null> {
  const startMs = performance.now()
  let firstMs: number | null = null
  const request: UpstreamRequest = {
    endpoint,
    customerId: 'bench',
    upstreamModel: 'bench',
    path: '/chat/completions',
    body,
    stream: true,
    limits: { connectMs: 3_000, firstByteMs: 10_000, idleMs: 10_000, totalMs: 30_000 },
    bytesMax: 1_000_000,
    signal: { aborted: false, reason: undefined, addEventListener() {}, removeEventListener() {} },
    memory: { take: () => true, give() {} },
  }
  try {
    const exchange = await client.send(request)
    await exchange.read(() => {
      firstMs ??= performance.now() - startMs
    })
    return exchange.head.status === 200 ? firstMs : null
  } catch {
    return null
  }
}

function reportText(): string {
  const [direct] = paths as [Path]
  const of = (values: readonly number[], part: number) =>
    percentile(
      values.toSorted((a, b) => a - b),
      part,
    )
  const rows = paths.map(path => {
    const { name, sequentialMs, cpuGatewayMs, cpuAgentMs, burstMs, burstFailed } = path
    const perRequest = (ms: number) => Math.round((ms * 1000) / sequentialMs.length)
    const added = (part: number) => (of(sequentialMs, part) - of(direct.sequentialMs, part)).toFixed(2)
    return `| ${[
      name,
      of(sequentialMs, 0.5).toFixed(2),
      path === direct ? '' : added(0.5),
      path === direct ? '' : added(0.99),
      perRequest(cpuGatewayMs),
      path === direct ? '' : perRequest(cpuAgentMs),
      of(burstMs, 0.5).toFixed(0),
      of(burstMs, 0.99).toFixed(0),
      burstFailed,
    ].join(' | ')} |`
  })
  return `# The way over an agent

First token of a stream of 5 events, 2 ms apart, from a model server that answers at once; a prompt of 2 kB. Gateway, agent and
model server are processes of one machine and talk over loopback. ${SEQUENTIAL} requests one after another for each path, in
${ROUNDS} rounds that alternate between the paths; then ${ROUNDS} bursts of ${AT_ONCE} requests at once. CPU of a whole stream, in the sequential part.
Machine: ${cpus().length} cores, ${cpus()[0]?.model}, Node ${process.version}. Written by \`npm run bench:agent\`.

| path | p50 ms | added p50 ms | added p99 ms | CPU of the gateway, us | CPU of the agent, us | ${AT_ONCE} at once: p50 ms | p99 ms | failed |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}
`
}
