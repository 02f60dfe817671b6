import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { dial } from '../../src/market/agent/dial.ts'
import { revokeHosterKey } from '../../src/market/marketplace/hoster-keys.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import type { HosterStatus } from '../../src/wire/api/hoster-console.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'
import { addAgentHoster, idleConnections, streamUntil } from './agent-world.ts'
import {
  closed,
  delta,
  frames,
  LAST_EVENTS,
  type Lie,
  type LyingAgent,
  startLyingAgent,
  streamAnswer,
  wholeAnswer,
} from './lying-agent.ts'

// Agents of hostile hosters: they follow the protocol until they have a request. The same parser and limits hold for servers with an
// address, and test/dispatch/bad-upstreams.test.ts has their cases.

describe('hostile agents', () => {
  const app = useTestApp({ timeouts: { serverReportIntervalMs: 50 } })
  const customer = useCustomer(app)
  const agents: LyingAgent[] = []

  const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }
  const lyingAgent = async (...lies: readonly Lie[]) => {
    const hoster = await addAgentHoster(app)
    const agent = await startLyingAgent(app, hoster.key, lies)
    agents.push(agent)
    // Hosters of other tests have the same model and no agent.
    const chat = (more: object = {}, caller = customer) =>
      app.chat(caller, { ...body, allow_hosters: [hoster.hosterId], ...more })
    // The catalogue lists the models of an agent a moment after it has connected, and later when many agents come and go.
    await vi.waitFor(async () => {
      const { refusal } = (await (await chat({ dry_run: true })).json()) as { refusal: { message: string } | null }
      if (refusal !== null) throw new Error(refusal.message)
    }, WAIT_OPTIONS)
    return { ...hoster, ...agent, chat }
  }
  const contentOf = async (response: Response) =>
    ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content

  afterEach(async () => {
    for (const agent of agents.splice(0)) agent.close()
    await idleConnections(app, 0, 0)
  })

  it('an answer to another request reaches nobody: each connection ends with its request', async () => {
    const other = await app.customer()
    const { chat } = await lyingAgent(
      frames(wholeAnswer('for the second'), wholeAnswer('for the first')),
      frames(wholeAnswer('for the first') + wholeAnswer('for the second')),
    )
    const first = await chat()
    const second = await chat({}, other)
    // The last connection is used first. The second answer of a connection is dropped with it.
    expect([await contentOf(first), await contentOf(second)]).toEqual(['for the first', 'for the second'])
    await idleConnections(app, 0)
  })

  const ok = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
  it.each<[what: string, lie: Lie]>([
    ['an oversized frame', frames(Buffer.alloc(300_000, 'x'))],
    ['no HTTP', frames('hello\r\n\r\n')],
    ['an empty message', frames(Buffer.alloc(0))],
    ['a text message', socket => socket.send(wholeAnswer('text'))],
    ['a redirect', frames('HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n')],
    [
      'a length and a transfer encoding',
      frames(`${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
    ],
    ['an unknown transfer encoding', frames(`${ok}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`)],
    ['two lengths', frames(`${ok}content-length: 2\r\ncontent-length: 2\r\n\r\n{}`)],
    ['a negative length', frames(`${ok}content-length: -1\r\n\r\n{}`)],
    ['a folded header', frames(`${ok}x-a: 1\r\n b: 2\r\ncontent-length: 2\r\n\r\n{}`)],
    ['a bare line feed', frames(`${ok}x-a: 1\ncontent-length: 2\r\n\r\n{}`)],
    ['a head of 17 KiB', frames(`${ok}x-a: ${'a'.repeat(17 * 1024)}\r\n\r\n`)],
    ['another protocol', frames('HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n')],
    ['interim responses without end', frames(...Array.from({ length: 101 }, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'))],
    [
      'a length in a trailer',
      frames(`${ok}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\ncontent-length: 2\r\n\r\n`),
    ],
    ['a chunk of 2^60 bytes', frames(`${ok}transfer-encoding: chunked\r\n\r\n1000000000000000\r\n`)],
    ['a compressed answer', frames(wholeAnswer('x', ['content-encoding: gzip']))],
    ['an endless whole answer', endless(`${ok}\r\n{"x":"`, Buffer.alloc(64 * 1024, 'x'))],
    ['an endless stream without content', endless(streamAnswer(), Buffer.from('data: {}\n\n'.repeat(1_000)))],
    [
      'one endless event',
      endless('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ', Buffer.alloc(64 * 1024, 'x')),
    ],
    ['a closed connection', socket => socket.close(1000)],
    ['a cut connection', socket => socket.terminate()],
  ])('%s is a failure of the hoster, and free', async (what, lie) => {
    const payer = await app.customer()
    const { chat } = await lyingAgent(lie)
    const response = await chat({ stream: what.includes('stream') || what.includes('event'), max_tokens: 10 }, payer)
    expect(response.status).toBe(500)
    await response.text()
    const [row] = await app.settled(payer, 1)
    expect(row!.cost_nanos).toBe(0n)
    expect(['malformed', 'server_error', 'empty']).toContain(row!.attempts[0]!.outcome)
  })

  it('security 37: no header of an agent reaches the customer', async () => {
    const planted = [
      'set-cookie: session=stolen',
      'strict-transport-security: max-age=1',
      'content-security-policy: default-src *',
      'access-control-allow-origin: https://evil.example',
      'access-control-allow-credentials: true',
      'link: <https://evil.example>; rel=preload',
      'x-switchyard-hoster: 00000000-0000-0000-0000-000000000000',
      'x-request-id: planted',
      'location: https://evil.example',
      'connection: keep-alive, x-hop',
      'x-hop: planted',
      'trailer: x-late',
    ]
    const { chat, hosterId } = await lyingAgent(frames(wholeAnswer('fine', planted)))
    const response = await chat()
    expect(response.status).toBe(200)
    expect(await contentOf(response)).toBe('fine')
    const text = [...response.headers].map(header => header.join(': ')).join('\n')
    expect(text).not.toMatch(/evil|planted|stolen|strict-transport|set-cookie/)
    expect(response.headers.get('x-switchyard-hoster')).toBe(hosterId)
    expect(response.headers.get('access-control-allow-credentials')).toBeNull()
  })

  it('security 41: prototypes, NUL, ids of others and false usage in a stream change nothing', async () => {
    const payer = await app.customer()
    const strangerId = `chatcmpl-${randomUUID()}`
    const { chat } = await lyingAgent(socket => {
      const poisoned = `{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"id":"${strangerId}","model":"gpt-9","choices":[{"index":0,"delta":{"content":"a\\u0000b","__proto__":{"polluted":1}}}]}`
      const usage = { prompt_tokens: 1_000_000, completion_tokens: 1_000_000, total_tokens: 2_000_000 }
      socket.send(Buffer.from(streamAnswer(poisoned, delta(' c', { usage }), ...LAST_EVENTS)))
      socket.close(1000)
    })
    const text = await (await chat({ stream: true, max_tokens: 50 }, payer)).text()
    const events = text.split('\n\n').filter(event => event.startsWith('data: {'))
    const parsed = events.map(
      event => JSON.parse(event.slice(6)) as { id: string; model: string; choices: [{ delta: { content?: string } }] },
    )
    expect(parsed.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('a\u0000b c')
    expect(new Set(parsed.map(({ model }) => model))).toEqual(new Set(['test-model']))
    expect(text).not.toContain(strangerId)
    expect(text).not.toContain('polluted')
    expect('polluted' in {}).toBe(false)
    const [row] = await app.settled(payer, 1)
    expect([row!.input_tokens, row!.output_tokens].every(tokens => tokens < 1_000)).toBe(true)
  })

  it('a false error in a stream ends it with the error of the gateway, and the text of the agent is no markup of it', async () => {
    const payer = await app.customer()
    const error = {
      error: { message: 'Pay at https://evil.example', type: 'insufficient_quota', code: 'insufficient_credit' },
    }
    const { chat } = await lyingAgent(socket => {
      socket.send(Buffer.from(streamAnswer(delta('begin'), JSON.stringify(error))))
    })
    const text = await (await chat({ stream: true }, payer)).text()
    expect(text).not.toContain('evil.example')
    expect(text).not.toContain('insufficient_credit')
    expect(text).not.toContain('[DONE]')
    const [row] = await app.settled(payer, 1)
    expect(row).toMatchObject({ outcome: 'interrupted', cost_nanos: 0n })
  })

  it('a key that is revoked in mid-stream ends the stream, which is free and earns nothing', async () => {
    const payer = await app.customer()
    const { chat, key, hosterId } = await lyingAgent(frames(streamAnswer(delta('begin'))))
    const read = await streamUntil(await chat({ stream: true }, payer), 'begin')
    await transaction(app.database.pool, sql => revokeHosterKey(sql, hosterId, `${key.slice(0, 10)}…${key.slice(-4)}`))
    expect(await read.rest()).toContain('"error"')
    const [row] = await app.settled(payer, 1)
    expect(row).toMatchObject({ outcome: 'interrupted', cost_nanos: 0n, hoster_share_nanos: 0n })
  })

  it('the key of another hoster adds no connection to an agent', async () => {
    await lyingAgent(frames(wholeAnswer('mine')))
    const other = await addAgentHoster(app)
    for (const path of [DATA_PATH, CONTROL_PATH]) {
      const dialled = await dial({
        gateway: app.url,
        path,
        key: other.key,
        agentId: '0197f0a0-0000-7000-8000-000000000002',
      })
      expect(dialled.kind === 'refused' && dialled.status, path).toBe(404)
    }
  })

  it('a flood of pings ends the connection', async () => {
    const { data } = await lyingAgent(frames())
    const end = closed(data[0]!)
    for (let n = 0; n < 100; n++) data[0]!.ping()
    await end
  })

  it.each([
    ['a NUL in the version', { type: 'announce', version: '\0', slots: 1, models: [] }],
    [
      'half a surrogate pair in a model',
      { type: 'announce', version: '1', slots: 1, models: [{ id: '\ud800', slots: 1 }] },
    ],
    [
      'an escape sequence in a model',
      { type: 'announce', version: '1', slots: 1, models: [{ id: '\u001b[2J', slots: 1 }] },
    ],
    ['a NUL in the reason', { type: 'status', state: 'paused', reason: 'x\0', free_slots: 0 }],
    [
      'more models than fit',
      {
        type: 'announce',
        version: '1',
        slots: 1,
        models: Array.from({ length: 1_001 }, (_, id) => ({ id: `${id}`, slots: 1 })),
      },
    ],
    ['absurd places', { type: 'announce', version: '1', slots: 1e9, models: [] }],
    ['negative places', { type: 'status', state: 'open', free_slots: -1 }],
  ])('%s ends the agent, and the report of its node still arrives', async (_what, message) => {
    const { control } = await lyingAgent()
    const end = closed(control)
    control.send(JSON.stringify(message))
    expect(await end).toBe(4400)
    const honest = await lyingAgent()
    const { key } = await hosterKey(app, honest.hosterId, ['read'])
    await vi.waitFor(async () => {
      const shown = (await (await hosterRequest(app, key, 'hoster/status')).json()) as HosterStatus
      expect(shown.agents).toMatchObject([{ version: '1', state: 'open' }])
    }, WAIT_OPTIONS)
  })

  it('announcements of 2 MiB within ten seconds end the agent', async () => {
    const { control } = await lyingAgent()
    const end = closed(control)
    const models = Array.from({ length: 900 }, (_, n) => ({ id: `${n}-${'m'.repeat(200)}`, slots: 1 }))
    for (let n = 0; n < 12; n++) control.send(JSON.stringify({ type: 'announce', version: `${n}`, slots: 1, models }))
    expect(await end).toBe(4400)
  })

  it('one key has at most 128 control connections', async () => {
    const { key } = await addAgentHoster(app)
    const connect = () => dial({ gateway: app.url, path: CONTROL_PATH, key, agentId: randomUUID() })
    const dialled = await Promise.all(Array.from({ length: 130 }, connect))
    const open = dialled.flatMap(each => (each.kind === 'open' ? [each.socket] : []))
    expect(open).toHaveLength(128)
    expect(dialled.flatMap(each => (each.kind === 'refused' ? [each.status] : []))).toEqual([429, 429])
    for (const socket of open) socket.terminate()
  })
})

/** Sends a head, and then the same piece again and again until the gateway closes the connection. */
function endless(head: string, piece: Buffer): Lie {
  return socket => {
    socket.send(Buffer.from(head))
    const next = () => socket.readyState === socket.OPEN && socket.send(piece, () => setImmediate(next))
    next()
  }
}
