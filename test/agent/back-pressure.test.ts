import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { benchEndpoint, startGatewaySide } from '../../bench/agent/gateway-side.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { runAgent } from '../../src/market/agent/run-agent.ts'
import { GENEROUS_TIMEOUTS, WAIT_OPTIONS } from '../harness/timeouts.ts'

const PIECE = Buffer.alloc(64 * 1024, 'x')
const PIECES = 2_048
/** Buffers of four sockets in the kernel, and those of the gateway and the agent. */
const BUFFERED_MAX = 48 * 1024 * 1024

let written = 0
const server = createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify({ data: [{ id: 'big' }] }))
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let i = 0; i < PIECES; i++) {
    written += PIECE.length
    if (!response.write(PIECE)) await new Promise(resolve => response.once('drain', resolve))
  }
  response.end()
})
let stop = () => {}

beforeAll(async () => {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
})
afterAll(() => {
  stop()
  server.close()
  server.closeAllConnections()
})

it('a reader that waits holds up the model server, and neither side collects the answer', async () => {
  const gateway = await startGatewaySide()
  const agent = runAgent(
    {
      gateways: [`http://127.0.0.1:${gateway.port}`],
      key: 'key',
      endpoint: null,
      upstream: { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, key: null },
      models: null,
      slots: 1,
      slotsPerModel: 1,
      hours: [],
      tokensPerMinute: null,
      pauseCommand: null,
      powerLimitWatts: null,
    },
    { version: 'test', clock: systemClock, random: Math.random, report() {} },
  )
  stop = () => {
    agent.stop()
    gateway.close()
  }
  await vi.waitFor(() => expect(gateway.stock.counts.idle).toBe(1), WAIT_OPTIONS)
  const { connectMs, firstTokenMs: firstByteMs, idleMs, totalMs } = GENEROUS_TIMEOUTS
  const exchange = await gateway.client.send({
    endpoint: benchEndpoint('http://agent.invalid/v1', 'agent'),
    customerId: 'customer',
    upstreamModel: 'big',
    path: '/chat/completions',
    body: '{"model":"big","stream":true}',
    stream: true,
    limits: { connectMs, firstByteMs, idleMs, totalMs },
    bytesMax: 1_000,
    signal: { aborted: false, reason: undefined, addEventListener() {}, removeEventListener() {} },
    memory: { take: () => true, give() {} },
  })
  const mayRead = Promise.withResolvers<void>()
  let read = 0
  const reading = exchange.read(piece => {
    read += piece.length
    return mayRead.promise
  })
  let before = -1
  // Full: nothing was written between two looks.
  await vi.waitFor(
    () => {
      const isSame = written === before && read > 0
      before = written
      if (!isSame) throw new Error(`${written} bytes are written`)
    },
    { timeout: 30_000, interval: 250 },
  )
  expect(written).toBeLessThan(BUFFERED_MAX)
  mayRead.resolve()
  await reading
  expect(read).toBe(PIECES * PIECE.length)
})
