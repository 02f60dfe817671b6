import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import { transaction } from '../../src/base/db/pool.ts'
import { dial } from '../../src/market/agent/dial.ts'
import { revokeHosterKey } from '../../src/market/marketplace/hoster-keys.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { type AgentHoster, addAgentHoster, hosterKey, idleConnections, startAgent } from './agent-world.ts'

const AGENT_ID = '0197f0a0-0000-7000-8000-000000000001'

describe('agents that are refused', () => {
  const upstream = useUpstream()
  const app = useTestApp()
  const customer = useCustomer(app)
  const hoster: AgentHoster = useResource(
    () => addAgentHoster(app),
    () => {},
  )

  const refusal = async (key: string, path = CONTROL_PATH, agentId = AGENT_ID) => {
    const dialled = await dial({ gateway: app.url, path, key, agentId })
    if (dialled.kind === 'open') {
      dialled.socket.terminate()
      return 'open'
    }
    return dialled.status
  }

  it('answers before the upgrade: 401, 403, 404, 400', async () => {
    const other = await addAgentHoster(app)
    const table = [
      ['a key that nobody has', `hk-sy-${'0'.repeat(38)}`, CONTROL_PATH, 401],
      ['the key of a customer', customer.key, CONTROL_PATH, 401],
      ['a key without the scope', await hosterKey(app, hoster.hosterId, ['read']), CONTROL_PATH, 403],
      ['the endpoint of another hoster', hoster.key, `${CONTROL_PATH}?endpoint=${other.endpointId}`, 404],
      ['an endpoint that is none', hoster.key, `${CONTROL_PATH}?endpoint=x`, 404],
      ['data without a control connection', hoster.key, DATA_PATH, 404],
      ['another address', hoster.key, '/v1/agent/other', 404],
    ] as const
    for (const [what, key, path, status] of table) expect(await refusal(key, path), what).toBe(status)
    expect(await refusal(hoster.key, CONTROL_PATH, 'no uuid')).toBe(400)
    expect(await refusal(hoster.key, `${CONTROL_PATH}?endpoint=${hoster.endpointId}`)).toBe('open')
  })

  it('serves plain requests that ask for another protocol as if they did not', async () => {
    const request = get(`${app.url}/healthz`, { headers: { connection: 'upgrade', upgrade: 'h2c' } })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    expect(response.statusCode).toBe(200)
  })

  it('ends an agent with a wrong key, with the reason', async () => {
    const agent = startAgent(`hk-sy-${'0'.repeat(38)}`, app.url, { upstream })
    await expect(agent.refused).resolves.toContain('hoster key')
    agent.stop()
  })

  it('cuts the connections of a revoked key, and no others', async () => {
    const revoked = await hosterKey(app, hoster.hosterId, ['serve'])
    const agent = startAgent(revoked, app.url, { upstream })
    const other = startAgent(hoster.key, app.url, { upstream })
    await idleConnections(app, 8, 2)
    await transaction(app.database.pool, sql => revokeHosterKey(sql, hoster.hosterId, hintOf(revoked)))
    // The gateway notices it by itself, within its polling interval.
    await expect(agent.refused).resolves.toContain('revoked')
    await idleConnections(app, 4, 1)
    agent.stop()
    other.stop()
    await idleConnections(app, 0, 0)
  })

  it('closes a control connection that floods, sends too much or breaks the protocol', async () => {
    const table = [
      ['no JSON', [Buffer.from('x')]],
      ['an unknown message', [JSON.stringify({ type: 'other' })]],
      ['an unknown field', [JSON.stringify({ type: 'status', state: 'open', free_slots: 1, extra: 1 })]],
      ['too large', [JSON.stringify({ type: 'status', state: 'open', free_slots: 1, reason: 'x'.repeat(300_000) })]],
      [
        'a flood',
        Array.from({ length: 2_001 }, () => JSON.stringify({ type: 'status', state: 'paused', free_slots: 0 })),
      ],
    ] as const
    for (const [what, messages] of table) {
      const dialled = await dial({ gateway: app.url, path: CONTROL_PATH, key: hoster.key, agentId: AGENT_ID })
      if (dialled.kind !== 'open') throw new Error(dialled.message)
      const closed = once(dialled.socket, 'close')
      dialled.socket.resume()
      for (const message of messages) dialled.socket.send(message)
      const [code] = await closed
      expect([4400, 1009], what).toContain(code)
    }
    const flooding = new WebSocket(`${app.url.replace('http', 'ws')}${CONTROL_PATH}`, {
      headers: { authorization: `Bearer ${hoster.key}`, 'x-switchyard-agent': AGENT_ID },
    })
    await once(flooding, 'open')
    const closed = once(flooding, 'close')
    for (let i = 0; i < 100; i++) flooding.ping()
    await closed
  })

  it('refuses data connections that are not wanted, and closes one that speaks first', async () => {
    const control = await dial({ gateway: app.url, path: CONTROL_PATH, key: hoster.key, agentId: AGENT_ID })
    if (control.kind !== 'open') throw new Error(control.message)
    control.socket.resume()
    expect(await refusal(hoster.key, DATA_PATH)).toBe(429)
    const model = { id: 'test-model', slots: 1 }
    control.socket.send(JSON.stringify({ type: 'announce', version: '1', slots: 1, models: [model] }))
    control.socket.send(JSON.stringify({ type: 'status', state: 'open', free_slots: 1 }))
    await vi.waitFor(async () => expect(await refusal(hoster.key, DATA_PATH)).toBe('open'), WAIT_OPTIONS)
    // That connection was closed again.
    await idleConnections(app, 0, 1)
    const data = await dial({ gateway: app.url, path: DATA_PATH, key: hoster.key, agentId: AGENT_ID })
    if (data.kind !== 'open') throw new Error(data.message)
    expect(await refusal(hoster.key, DATA_PATH)).toBe(429)
    const closed = once(data.socket, 'close')
    data.socket.resume()
    data.socket.send(Buffer.from('HTTP/1.1 200 OK\r\n\r\n'))
    await closed
    await idleConnections(app, 0, 1)
    control.socket.terminate()
    await idleConnections(app, 0, 0)
  })
})

/** As `hintOf` of the keys: the first ten and the last four characters. */
const hintOf = (key: string) => `${key.slice(0, 10)}…${key.slice(-4)}`
