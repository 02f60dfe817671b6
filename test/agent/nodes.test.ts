import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { Clock } from '../../src/base/runtime/scheduler.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'
import { addAgentHoster, idleConnections, startAgent } from './agent-world.ts'
import { type MovableAddress, startMovableAddress } from './movable-address.ts'

const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }

describe('several nodes behind one address', () => {
  const upstream = useUpstream()
  const database = useTestDatabase()
  const address: MovableAddress = useResource(startMovableAddress, address => address.close())
  const masterKey = randomBytes(32)
  const startNode = () => startTestApp({ database, masterKey, timeouts: { agentReportMs: 100 } })
  const answersAt = async (app: TestApp) => (await app.chat(await app.customer(), body)).status

  it('an agent serves every node, and one that starts later', async () => {
    const first = await startNode()
    const second = await startNode()
    address.moveTo(first.url, second.url)
    const hoster = await addAgentHoster({ database })
    await Promise.all([first, second].map(({ app }) => app.noticeChanges()))
    const agent = startAgent(hoster.key, address.url, { upstream, slots: 2 })
    await Promise.all([idleConnections(first, 2), idleConnections(second, 2)])
    expect(await Promise.all([answersAt(first), answersAt(second)])).toEqual([200, 200])

    const third = await startNode()
    address.moveTo(first.url, second.url, third.url)
    await idleConnections(third, 2)
    expect(await answersAt(third)).toBe(200)

    // A node that drains lets the agent go.
    address.moveTo(second.url, third.url)
    await first.stop()
    await agent.saw('disconnected')
    expect(await Promise.all([answersAt(second), answersAt(third)])).toEqual([200, 200])
    agent.stop()
    for (const node of [first, second, third]) await node.close()
  })

  it('a model is offered on every node while an agent is connected to any of them', async () => {
    const timeouts = { serverReportIntervalMs: 50 }
    const nodes = [
      await startTestApp({ database, masterKey, timeouts }),
      await startTestApp({ database, masterKey, timeouts }),
    ]
    const [first, second] = nodes as [TestApp, TestApp]
    address.moveTo(first.url)
    const model = 'only-by-agent'
    const hoster = await addAgentHoster({ database }, [{ modelId: model, upstreamModel: 'test-model' }])
    await Promise.all(nodes.map(({ app }) => app.noticeChanges()))
    const customers = [await first.customer(), await second.customer()]
    const isListed = async (node: TestApp, index: number) => {
      const list = (await (await node.get(customers[index]!, '/v1/models')).json()) as { data: { id: string }[] }
      return list.data.some(({ id }) => id === model)
    }
    const areListed = () => Promise.all(nodes.map(isListed))
    expect(await areListed()).toEqual([false, false])
    const refused = await readError(await second.chat(customers[1]!, { ...body, model }))
    expect(refused).toMatchObject({ status: 500, code: 'no_eligible_offer' })
    expect(refused.message).toBe('No server offers this model right now; you were not charged. Retry later.')

    let epochMs = new Date(2026, 0, 1, 12).getTime()
    const clock: Clock = { epochMs: () => epochMs, monotonicMs: () => performance.now() }
    const hours = [{ startMinute: 11 * 60, endMinute: 13 * 60 }]
    const agent = startAgent(hoster.key, address.url, { upstream, slots: 2, clock, hours })
    await vi.waitFor(async () => expect(await areListed()).toEqual([true, true]), WAIT_OPTIONS)
    await idleConnections(first, 2)
    expect((await first.chat(customers[0]!, { ...body, model })).status).toBe(200)
    // An agent that pauses stays connected, and takes no requests.
    epochMs += 2 * 3_600_000
    await vi.waitFor(async () => expect(await areListed()).toEqual([false, false]), WAIT_OPTIONS)
    await idleConnections(first, 0)
    expect(await readError(await first.chat(customers[0]!, { ...body, model }))).toMatchObject({
      status: 500,
      code: 'no_eligible_offer',
    })
    epochMs -= 2 * 3_600_000
    await vi.waitFor(async () => expect(await areListed()).toEqual([true, true]), WAIT_OPTIONS)
    agent.stop()
    await vi.waitFor(async () => expect(await areListed()).toEqual([false, false]), WAIT_OPTIONS)
    for (const node of nodes) await node.close()
  })

  it('an agent finds a gateway again that was restarted under it', async () => {
    const hoster = await addAgentHoster({ database })
    const before = await startNode()
    address.moveTo(before.url)
    const agent = startAgent(hoster.key, address.url, { upstream, slots: 2 })
    await idleConnections(before, 2)
    address.moveTo()
    await before.close()
    await agent.saw('unreachable')
    const after = await startNode()
    address.moveTo(after.url)
    await idleConnections(after, 2)
    expect(await answersAt(after)).toBe(200)
    agent.stop()
    await after.close()
  })
})

describe('workers of one machine', () => {
  const upstream = useUpstream()
  const database = useTestDatabase()

  it('an agent serves every worker', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'switchyard-agent-'))
    await writeFile(
      join(directory, 'switchyard.yaml'),
      'demo: { enabled: false }\ndetect: { enabled: false }\nserver: { workers: 2 }\npostgres: { money_connections: 2, general_connections: 2 }\n',
    )
    const { key } = await transaction(database.pool, async sql => {
      const { customerId } = (await addCustomer(sql, { email: 'ada@example.com', accountTier: 'scale' }))!
      await openAccount(sql, customerId, 5_000_000_000n)
      return await issueKey(sql, { name: 'test', customerId })
    })
    const hoster = await addAgentHoster({ database })
    const gateway = await startGatewayProcess({ directory, env: { DATABASE_URL: databaseUrl(database.connection) } })
    const agent = startAgent(hoster.key, gateway.url, { upstream, slots: 2 })
    try {
      await vi.waitFor(() => {
        const connected = agent.events.filter(({ event }) => event === 'connected').length
        if (connected < 2) throw new Error(`connected to ${connected} workers`)
      }, WAIT_OPTIONS)
      // Each connection goes to the next worker.
      const answers = []
      for (let i = 0; i < 6; i++) {
        const response = await fetch(`${gateway.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
          body: JSON.stringify(body),
        })
        answers.push(response.status)
        await response.text()
      }
      expect(answers).toEqual(Array(6).fill(200))
      expect(
        new Set(gateway.log.filter(({ msg }) => msg === 'an agent connected').map(({ worker }) => worker)).size,
      ).toBe(2)
    } finally {
      agent.stop()
      await gateway.stop()
      await rm(directory, { recursive: true })
    }
  })
})
