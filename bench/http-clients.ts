import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { uncounted } from '../src/base/runtime/counted-memory.ts'
import { UpstreamClient } from '../src/wire/upstreams/upstream-client.ts'
import { offerAt } from '../test/dispatch/dispatching.ts'
import { pin, planCores, startUpstream } from './process.ts'

// Compares the client for upstreams with undici, over loopback: npm run bench:http-clients -- [ROUNDS]. Each round starts a process for each client
// and kind of answer, in turn, on a core of its own. docs/decisions/2026-11-22-own-http-client-for-upstreams.md has the figures.

const clients = ['own', 'undici dispatch', 'undici request'] as const
type Client = (typeof clients)[number]
const kinds = { 'whole, 1 connection': 1, 'whole, 32': 32, 'whole, 128': 128, '500 streams': 500 }
type Kind = keyof typeof kinds

interface Sample {
  readonly cpuMicros: number
  readonly perSecond: number
  readonly rssMb: number
}

const SECONDS = 3
const PATH = '/v1/chat/completions'

async function compare(rounds: number): Promise<void> {
  const cores = planCores()
  if (cores !== null) pin(process.pid, cores.load)
  const upstream = await startUpstream(cores, mkdtempSync(join(tmpdir(), 'http-clients-')))
  const samples = new Map<string, Sample[]>()
  for (let round = 0; round < rounds; round++) {
    for (const kind of Object.keys(kinds)) {
      // Another order each time.
      for (let index = 0; index < clients.length; index++) {
        const client = clients[(index + round) % clients.length] ?? 'own'
        const child = fork(fileURLToPath(import.meta.url), ['--measure', client, kind, upstream.origin])
        if (cores !== null && child.pid !== undefined) pin(child.pid, cores.subject)
        const [sample] = (await once(child, 'message')) as [Sample]
        await once(child, 'exit')
        const key = `${kind} | ${client}`
        samples.set(key, [...(samples.get(key) ?? []), sample])
      }
    }
  }
  await upstream.stop()
  console.log('kind | client | CPU µs/request | requests/s | RSS, MB')
  for (const [key, found] of samples) {
    const figure = (read: (sample: Sample) => number) => median(found.map(read)).toFixed(1)
    console.log([key, figure(s => s.cpuMicros), figure(s => s.perSecond), figure(s => s.rssMb)].join(' | '))
  }
}

async function measure(client: Client, kind: Kind, origin: string): Promise<Sample> {
  const stream = kind === '500 streams'
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(1_000) }], stream })
  const send = senders[client](origin, body, stream)
  // The code is compiled, and the connections are open.
  await load(send, kinds[kind], stream ? 1 : 1.5)
  const before = process.cpuUsage()
  const startedMs = performance.now()
  const requests = await load(send, kinds[kind], SECONDS)
  const { user, system } = process.cpuUsage(before)
  return {
    cpuMicros: (user + system) / requests,
    perSecond: requests / ((performance.now() - startedMs) / 1_000),
    rssMb: process.memoryUsage.rss() / 1e6,
  }
}

async function load(send: () => Promise<unknown>, connections: number, seconds: number): Promise<number> {
  const untilMs = performance.now() + seconds * 1_000
  let requests = 0
  const one = async () => {
    do {
      await send()
      requests++
    } while (performance.now() < untilMs)
  }
  await Promise.all(Array.from({ length: connections }, one))
  return requests
}

/** Each returns a function that sends a request and reads the whole answer. */
const senders: Record<Client, (origin: string, body: string, stream: boolean) => () => Promise<unknown>> = {
  own(origin, body, stream) {
    const client = new UpstreamClient({ version: '0.0.0-bench' })
    const { endpoint } = offerAt(`${origin}/v1`, {})
    const { signal } = new AbortController()
    const limits = { connectMs: 10_000, firstByteMs: 60_000, idleMs: 60_000, totalMs: 60_000 }
    const request = { endpoint, customerId: 'c', path: '/chat/completions', body, stream, signal, limits }
    return async () => {
      const exchange = await client.send({ ...request, bytesMax: 16 * 1024 * 1024, memory: uncounted })
      if (!stream) return exchange.text
      let bytes = 0
      await exchange.read(piece => {
        bytes += piece.length
      })
      return bytes
    }
  },
  'undici dispatch'(origin, body, stream) {
    const pool = new Pool(origin, { connections: stream ? 500 : 128, headersTimeout: 60_000, bodyTimeout: 60_000 })
    const headers = { 'content-type': 'application/json', accept: 'application/json' }
    return () =>
      new Promise((resolve, reject) => {
        const pieces: Buffer[] = []
        let bytes = 0
        pool.dispatch(
          { method: 'POST', path: PATH, headers, body },
          {
            onRequestStart() {},
            onResponseStart() {},
            onResponseData(_controller, piece) {
              if (stream) bytes += piece.length
              else pieces.push(piece)
            },
            onResponseEnd() {
              resolve(stream ? bytes : Buffer.concat(pieces).toString())
            },
            onResponseError(_controller, error) {
              reject(error)
            },
          },
        )
      })
  },
  'undici request'(origin, body, stream) {
    const pool = new Pool(origin, { connections: stream ? 500 : 128, headersTimeout: 60_000, bodyTimeout: 60_000 })
    const headers = { 'content-type': 'application/json', accept: 'application/json' }
    return async () => {
      const answer = await pool.request({ method: 'POST', path: PATH, headers, body })
      if (!stream) return answer.body.text()
      let bytes = 0
      for await (const piece of answer.body) bytes += piece.length
      return bytes
    }
  },
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

if (process.argv[2] === '--measure') {
  const [, , , client, kind, origin] = process.argv as unknown as [string, string, string, Client, Kind, string]
  const sample = await measure(client, kind, origin)
  // Idle connections would keep the process alive.
  process.send?.(sample, () => process.exit())
} else {
  await compare(Number(process.argv[2] ?? 9))
}
