import { randomUUID } from 'node:crypto'
import { get } from 'node:http'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { WebSocket } from 'ws'
import { transaction } from '../../src/base/db/pool.ts'
import { addPerson } from '../../src/identity/people/persons.ts'
import { type Dialled, dial } from '../../src/market/agent/dial.ts'
import { CONTROL_PATH, DATA_PATH } from '../../src/wire/api/agent-protocol.ts'
import { testOffer } from '../harness/app.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { type AgentHoster, addAgentHoster, hosterKey, idleConnections } from './agent-world.ts'

// Hosters that open as many connections as they get, to a node with 160: 80 for agents, and 40 for one hoster or one owner. The bounds
// themselves are in src/http/agents/agent-bounds.test.ts.

const NODE_CONNECTIONS = 160

describe('a hoster that opens hundreds of connections', () => {
  const upstream = useUpstream()
  const app = useTestApp(() => ({
    offers: [testOffer(upstream.baseUrl, { modelId: 'honest' })],
    yaml: `server:\n  max_connections: ${NODE_CONNECTIONS}\n`,
  }))
  const customer = useCustomer(app)
  const open = new Set<WebSocket>()

  afterEach(async () => {
    for (const socket of open) socket.terminate()
    await idleConnections(app, 0, 0)
  })

  const connect = async (key: string, path: string, agentId: string) => {
    const dialled = await dial({ gateway: app.url, path, key, agentId })
    if (dialled.kind === 'open') {
      open.add(dialled.socket.once('close', () => open.delete(dialled.socket)))
      dialled.socket.resume()
    }
    return dialled
  }

  /** Connects agents with 60 places each, and data connections for them, until the node has refused some of both. */
  async function flood(keys: readonly string[]): Promise<readonly Dialled[]> {
    const all: Dialled[] = []
    for (const [n, key] of Array.from({ length: 10 * keys.length }, (_, n) => [n, keys[n % keys.length]!] as const)) {
      const agentId = randomUUID()
      const control = await connect(key, CONTROL_PATH, agentId)
      all.push(control)
      if (control.kind === 'refused') continue
      const model = { id: 'test-model', slots: 60 }
      control.socket.send(JSON.stringify({ type: 'announce', version: `${n}`, slots: 60, models: [model] }))
      control.socket.send(JSON.stringify({ type: 'status', state: 'open', free_slots: 60 }))
      await new Promise<void>(resolve => {
        control.socket
          .on('message', data => String(data).includes('"stock"') && resolve())
          .once('close', () => resolve())
      })
      all.push(...(await Promise.all(Array.from({ length: 25 }, () => connect(key, DATA_PATH, agentId)))))
    }
    return all
  }

  /** Each request has a new connection, as those of new customers have. */
  async function serveCustomers(): Promise<void> {
    for (let n = 0; n < 10; n++) {
      const status = await new Promise<number>((resolve, reject) => {
        const headers = { authorization: `Bearer ${customer.key}` }
        get(`${app.url}/v1/models`, { agent: false, headers }, response => {
          response.resume().once('end', () => resolve(response.statusCode!))
        }).once('error', reject)
      })
      expect(status).toBe(200)
    }
    const body = { model: 'honest', messages: [{ role: 'user', content: 'Hi' }] }
    expect((await app.chat(customer, body)).status).toBe(200)
  }

  const keysOf = (hoster: AgentHoster, count: number) =>
    Promise.all(Array.from({ length: count }, () => hosterKey(app, hoster.hosterId, ['serve'])))

  it.each<[what: string, keys: () => Promise<readonly string[]>, openMax: number]>([
    ['with one key', async () => [(await addAgentHoster(app)).key], 40],
    ['with many keys', async () => keysOf(await addAgentHoster(app), 5), 40],
    ['under many names of one owner', () => hostersOfOnePerson(5), 40],
    ['with many hosters of many owners', async () => Promise.all(Array.from({ length: 5 }, keyOfNewHoster)), 80],
    ['before it is active', async () => [await keyOfNewHoster('applied')], 16],
    [
      'with many hosters that are not active',
      () => Promise.all(Array.from({ length: 5 }, () => keyOfNewHoster('applied'))),
      16,
    ],
  ])('%s leaves all other places to customers', async (_what, makeKeys, openMax) => {
    const dialled = await flood(await makeKeys())
    expect(open.size).toBeLessThanOrEqual(openMax)
    expect(dialled.some(({ kind }) => kind === 'open')).toBe(true)
    const statuses = new Set(dialled.flatMap(each => (each.kind === 'refused' ? [each.status] : [])))
    expect([...statuses]).toEqual([429])
    await serveCustomers()
  })

  it('another hoster still gets its places on a full node, from the idle ones of the largest', async () => {
    await flood(await Promise.all(Array.from({ length: 3 }, keyOfNewHoster)))
    const full = open.size
    const late = await addAgentHoster(app)
    const agentId = randomUUID()
    const control = await connect(late.key, CONTROL_PATH, agentId)
    if (control.kind === 'refused') throw new Error(control.message)
    const model = { id: 'test-model', slots: 4 }
    control.socket.send(JSON.stringify({ type: 'announce', version: '1', slots: 4, models: [model] }))
    control.socket.send(JSON.stringify({ type: 'status', state: 'open', free_slots: 4 }))
    await vi.waitFor(async () => {
      const data = await connect(late.key, DATA_PATH, agentId)
      if (data.kind === 'refused' && !data.message.includes('enough idle')) throw new Error(data.message)
      expect(data.kind).toBe('refused')
    }, WAIT_OPTIONS)
    // The four of the late one took the places of others.
    await vi.waitFor(() => expect(open.size).toBeLessThanOrEqual(full), WAIT_OPTIONS)
    await serveCustomers()
  })

  async function keyOfNewHoster(state: unknown): Promise<string> {
    const { hosterId, key } = await addAgentHoster(app)
    if (state === 'applied')
      await app.database.pool.query("UPDATE hoster SET state = 'applied' WHERE hoster_id = $1", [hosterId])
    return key
  }

  async function hostersOfOnePerson(count: number): Promise<string[]> {
    const person = await transaction(app.database.pool, sql => addPerson(sql, { email: `${randomUUID()}@owner.test` }))
    const hosters = await Promise.all(Array.from({ length: count }, () => addAgentHoster(app)))
    for (const { hosterId } of hosters) {
      await app.database.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
        hosterId,
        person!.personId,
      ])
    }
    return hosters.map(({ key }) => key)
  }
})
