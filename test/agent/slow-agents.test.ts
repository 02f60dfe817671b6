import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { benchEndpoint, startGatewaySide } from '../../bench/agent/gateway-side.ts'
import { dial } from '../../src/market/agent/dial.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import { GENEROUS_TIMEOUTS, WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp } from '../harness/use-test-app.ts'
import { addAgentHoster, idleConnections } from './agent-world.ts'
import { frames, type Lie, startLyingAgent, wholeAnswer } from './lying-agent.ts'

// Agents that are slow on purpose, and frames that no library sends. Nothing of them is collected without end.

const AGENT_ID = '0197f0a0-0000-7000-8000-000000000003'

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

interface Frame {
  readonly opcode: number
  readonly payload?: string | Buffer
  /** Whether it is the last one of its message. Default: true. */
  readonly isLast?: boolean
  readonly isCompressed?: boolean
  readonly isMasked?: boolean
}

/** A frame of a client, with a mask that changes nothing. */
function frame({ opcode, payload = '', isLast = true, isCompressed = false, isMasked = true }: Frame): Buffer {
  const body = Buffer.from(payload)
  const mask = isMasked ? 0x80 : 0
  const first = (isLast ? 0x80 : 0) | (isCompressed ? 0x40 : 0) | opcode
  const head =
    body.length < 126 ? [first, mask | body.length] : [first, mask | 126, body.length >> 8, body.length & 0xff]
  return Buffer.concat([Buffer.from(head), Buffer.alloc(isMasked ? 4 : 0), body])
}

/** Opens a WebSocket whose frames the test writes itself. */
async function rawAgent(url: string, key: string, path = CONTROL_PATH): Promise<Socket> {
  const { port, host } = new URL(url)
  const socket = connect({ port: Number(port), host: '127.0.0.1', noDelay: true })
  onTestFinished(() => void socket.destroy())
  const head = [
    `GET ${path} HTTP/1.1`,
    `host: ${host}`,
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    // Offers what the gateway must not accept.
    'sec-websocket-extensions: permessage-deflate',
    `authorization: Bearer ${key}`,
    `x-switchyard-agent: ${AGENT_ID}`,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1.1 101 /)
  expect(answer.toString('latin1').toLowerCase()).not.toContain('permessage-deflate')
  socket.on('error', () => {})
  return socket
}

/** Waits until a connection is closed. A reset is one way. */
const ended = (socket: Socket) => new Promise<void>(resolve => socket.once('close', () => resolve()))

const text = (message: object): Buffer => frame({ opcode: opcodes.text, payload: JSON.stringify(message) })
const announce = (models: readonly string[]) => ({
  type: 'announce',
  version: '1',
  slots: 4,
  models: models.map(id => ({ id, slots: 1 })),
})

describe('slow agents', () => {
  // No other limit ends an agent that does not read.
  const app = useTestApp({ timeouts: { slowReaderMs: 600_000, agentPingMs: 600_000 } })

  afterEach(() => idleConnections(app, 0, 0))

  it('a control connection one byte at a time is read, and pings between its bytes keep it', async () => {
    const { key } = await addAgentHoster(app)
    const socket = await rawAgent(app.url, key)
    let read = ''
    socket.on('data', piece => {
      read += piece
    })
    const bytes = Buffer.concat([
      text(announce(['test-model'])),
      frame({ opcode: opcodes.ping }),
      text({ type: 'status', state: 'open', free_slots: 4 }),
    ])
    for (const byte of bytes) await new Promise(resolve => socket.write(Buffer.from([byte]), resolve))
    await vi.waitFor(() => expect(read).toContain('"stock"'), WAIT_OPTIONS)
    socket.destroy()
  })

  it.each<[what: string, frames: () => Iterable<Buffer>]>([
    ['fragments without end', () => fragments(Array(100).fill('{'))],
    ['empty fragments without end', () => fragments(Array(100).fill(''))],
    ['fragments without end, with pings in between', () => withPings(fragments(Array(100).fill(' ')))],
    ['a message that begins within another', () => [...fragments(['{']), text({ type: 'status' })]],
    ['a continuation of nothing', () => [frame({ opcode: opcodes.continuation, payload: 'x' })]],
    ['a compressed frame', () => [frame({ opcode: opcodes.text, payload: 'x', isCompressed: true })]],
    ['a frame without a mask', () => [frame({ opcode: opcodes.text, payload: 'x', isMasked: false })]],
    ['a frame of an unknown kind', () => [frame({ opcode: 3, payload: 'x' })]],
    ['a ping in fragments', () => [frame({ opcode: opcodes.ping, isLast: false })]],
    ['a ping with 126 bytes', () => [frame({ opcode: opcodes.ping, payload: 'x'.repeat(126) })]],
    ['pings without end', () => Array.from({ length: 100 }, () => frame({ opcode: opcodes.ping, payload: 'x' }))],
    ['pongs without end', () => Array.from({ length: 100 }, () => frame({ opcode: opcodes.pong, payload: 'x' }))],
    ['text that is not UTF-8', () => [frame({ opcode: opcodes.text, payload: Buffer.from([0xff, 0xfe]) })]],
  ])('%s end a connection of either kind', async (_what, makeFrames) => {
    const { key } = await addAgentHoster(app)
    const control = await rawAgent(app.url, key)
    control.resume()
    control.write(
      Buffer.concat([text(announce(['test-model'])), text({ type: 'status', state: 'open', free_slots: 4 })]),
    )
    const data = await vi.waitFor(() => rawAgent(app.url, key, DATA_PATH), WAIT_OPTIONS)
    data.resume()
    for (const socket of [data, control]) {
      const closed = ended(socket)
      for (const each of makeFrames()) socket.write(each)
      // As an agent does that was sent a close frame.
      socket.once('end', () => socket.end())
      await closed
    }
  })

  it('a half-closed connection is closed, and its agent is gone', async () => {
    const { key } = await addAgentHoster(app)
    const socket = await rawAgent(app.url, key)
    await idleConnections(app, 0, 1)
    socket.resume().end()
    await ended(socket)
    await idleConnections(app, 0, 0)
  })

  it('an agent that reads nothing and says that it is alive is closed before much waits for it', async () => {
    const { key, hosterId } = await addAgentHoster(app)
    // What is not served has a reason, which is longer than what the agent sends.
    await app.database.pool.query("UPDATE hoster SET state = 'applied' WHERE hoster_id = $1", [hosterId])
    const socket = await rawAgent(app.url, key)
    const closed = ended(socket)
    socket.pause()
    for (let n = 0; n < 90 && !socket.destroyed; n++) {
      const models = Array.from({ length: 1_000 }, (_, at) => `${(at + n) % 1_000}`)
      const sent = socket.write(text({ ...announce(models), version: `${n}` }))
      if (!sent) await Promise.race([once(socket, 'drain'), closed])
    }
    // Nothing was read so far, and the end comes behind it.
    await idleConnections(app, 0, 0)
    socket.resume()
    await closed
  })

  it('an answer one byte at a time is an answer', async () => {
    const { key, hosterId } = await addAgentHoster(app)
    const bytes = [...Buffer.from(wholeAnswer('slow'))].map(byte => Buffer.from([byte]))
    const agent = await startLyingAgent(app, key, [frames(...bytes)])
    const customer = await app.customer()
    const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }], allow_hosters: [hosterId] }
    const response = await vi.waitFor(async () => {
      const answer = await app.chat(customer, body)
      expect(answer.status).toBe(200)
      return answer
    }, WAIT_OPTIONS)
    expect(await response.text()).toContain('slow')
    agent.close()
  })
})

function* fragments(payloads: readonly string[]): Generator<Buffer> {
  for (const [n, payload] of payloads.entries()) {
    yield frame({ opcode: n === 0 ? opcodes.text : opcodes.continuation, payload, isLast: false })
  }
}

function* withPings(all: Iterable<Buffer>): Generator<Buffer> {
  let n = 0
  for (const each of all) {
    yield each
    // Fewer than a flood.
    if (n++ % 20 === 0) yield frame({ opcode: opcodes.ping })
  }
}

describe('a data connection', () => {
  const byByte = (bytes: string, isEndless = false): Lie => {
    return socket => {
      let at = 0
      const next = () => {
        if (socket.readyState !== socket.OPEN || (!isEndless && at >= bytes.length)) return
        socket.send(Buffer.from(bytes[at++ % bytes.length]!), () => setImmediate(next))
      }
      next()
    }
  }
  const ok = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
  const limits = { ...GENEROUS_TIMEOUTS, firstByteMs: GENEROUS_TIMEOUTS.firstTokenMs }

  it.each<[what: string, lie: Lie, limits: Partial<typeof limits>]>([
    ['that never speaks', () => {}, { firstByteMs: 50 }],
    ['with a head without end, byte by byte', byByte(`${ok}x-a: ${'a'.repeat(20_000)}`), {}],
    ['with a head that stops', byByte('HTTP/1.1 200 OK\r\nx-a'), { firstByteMs: 50 }],
    ['with a body that stops', byByte(`${ok}content-length: 10\r\n\r\n{`), { idleMs: 50 }],
    ['with a body byte by byte, without end', byByte('x', true), {}],
    [
      'with a body without end, in time',
      (socket, request) => {
        socket.send(Buffer.from(`${ok}\r\n`))
        byByte(' ', true)(socket, request)
      },
      { totalMs: 300 },
    ],
    ['that is half closed', socket => void (socket as unknown as { _socket: Socket })._socket.end(), {}],
  ])('%s fails the request, and is closed', async (_what, lie, more) => {
    const gateway = await startGatewaySide()
    onTestFinished(() => gateway.close())
    const open = async (path: string) => {
      const options = { gateway: `http://127.0.0.1:${gateway.port}`, path, key: 'key', agentId: AGENT_ID }
      const dialled = await dial(options)
      if (dialled.kind === 'refused') throw new Error(dialled.message)
      dialled.socket.resume()
      return dialled.socket
    }
    const control = await open(CONTROL_PATH)
    control.send(JSON.stringify({ ...announce(['m']), slots: 1 }))
    control.send(JSON.stringify({ type: 'status', state: 'open', free_slots: 1 }))
    const data = await vi.waitFor(() => open(DATA_PATH), WAIT_OPTIONS)
    data.once('message', (request: Buffer) => lie(data, request))
    await vi.waitFor(() => expect(gateway.stock.counts.idle).toBe(1), WAIT_OPTIONS)
    const closed = once(data, 'close')
    const answer = async () => {
      const exchange = await gateway.client.send({
        endpoint: benchEndpoint('http://agent.invalid/v1', 'agent'),
        customerId: 'customer',
        upstreamModel: 'm',
        path: '/chat/completions',
        body: '{}',
        stream: false,
        limits: { ...limits, ...more },
        bytesMax: 100_000,
        signal: { aborted: false, reason: undefined, addEventListener() {}, removeEventListener() {} },
        memory: { take: () => true, give() {} },
      })
      await exchange.read(() => {})
    }
    await expect(answer()).rejects.toThrow()
    await closed
    expect(gateway.stock.counts).toEqual({ connected: 1, idle: 0 })
  })
})
