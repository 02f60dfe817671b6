import { describe, expect, it, vi } from 'vitest'
import { usdText } from '../../src/base/domain/money.ts'
import type { AgentEvent } from '../../src/market/agent/run-agent.ts'
import { activateHoster, suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { type AgentHoster, addAgentHoster, idleConnections, startAgent } from './agent-world.ts'

const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }

describe('requests that an agent serves', () => {
  const upstream = useUpstream()
  const app = useTestApp({ timeouts: { agentReportMs: 100 } })
  const customer = useCustomer(app)
  const hoster: AgentHoster = useResource(
    () => addAgentHoster(app),
    () => {},
  )
  const agent = useResource(
    () => startAgent(hoster.key, app.url, { upstream }),
    agent => agent.stop(),
  )

  it('answers whole and streamed requests, and pays the hoster', async () => {
    await idleConnections(app, 4)
    const whole = await app.chat(customer, body)
    expect(whole.status).toBe(200)
    expect(whole.headers.get('x-switchyard-hoster')).toBe(hoster.hosterId)
    expect(((await whole.json()) as { choices: unknown[] }).choices).toHaveLength(1)
    const streamed = await app.chat(customer, { ...body, stream: true })
    expect(await streamed.text()).toContain('data: [DONE]')
    const rows = await app.settled(customer, 2)
    expect(rows.map(row => [row.hoster_id, row.outcome, row.hoster_share_nanos > 0n])).toEqual([
      [hoster.hosterId, 'served', true],
      [hoster.hosterId, 'served', true],
    ])
  })

  it('reports what the hoster earned', async () => {
    const { rows } = await app.database.pool.query<{ earned: bigint }>(
      'SELECT sum(hoster_share_nanos)::bigint AS earned FROM usage_event',
    )
    const earned = usdText(rows[0]!.earned)
    await agent.saw('earnings', ({ todayUsd, totalUsd }) => todayUsd === earned && totalUsd === earned)
  })

  it('names the models that get requests', async () => {
    const { models } = await agent.saw('models')
    expect(models).toMatchObject({
      hoster_state: 'active',
      served: [{ id: 'test-model', model: 'test-model', input_usd: '1.00', output_usd: '2.00' }],
      not_served: [],
    })
  })

  it('names them again when the hoster is active again', async () => {
    const newest = () => {
      const { models } = agent.events.findLast(({ event }) => event === 'models') as Extract<
        AgentEvent,
        { event: 'models' }
      >
      return { state: models.hoster_state, served: models.served.length, notServed: models.not_served }
    }
    await suspendHoster(app.database.pool, hoster.hosterId)
    await app.app.noticeChanges()
    const notServed = [{ id: 'test-model', reason: 'the hoster is suspended' }]
    await vi.waitFor(() => expect(newest()).toEqual({ state: 'suspended', served: 0, notServed }), WAIT_OPTIONS)
    await activateHoster(app.database.pool, hoster.hosterId)
    await app.app.noticeChanges()
    await vi.waitFor(() => expect(newest()).toEqual({ state: 'active', served: 1, notServed: [] }), WAIT_OPTIONS)
  })

  it('aborts the request at the model server when the client leaves', async () => {
    const leaving = new AbortController()
    const before = upstream.requests.length
    upstream.respondWith(async (request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      leaving.abort()
      await request.aborted
    })
    await expect(app.chat(customer, { ...body, stream: true }, { signal: leaving.signal })).rejects.toThrow()
    await expect(upstream.requests[before]!.aborted).resolves.toBe(true)
  })
})
