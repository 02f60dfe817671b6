import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Clock } from '../../src/base/runtime/scheduler.ts'
import { type FaultProxy, startFaultProxy } from '../harness/fault-proxy.ts'
import { answer, stall, startScriptedUpstream } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import {
  type AgentHoster,
  addAgentHoster,
  idleConnections,
  startAgent,
  streamUntil,
  type TestAgent,
} from './agent-world.ts'
import { startHostProcess } from './host-process.ts'

const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }] }

describe('agents that fail', () => {
  const upstream = useUpstream()
  const app = useTestApp()
  const hoster: AgentHoster = useResource(
    () => addAgentHoster(app),
    () => {},
  )
  const proxy: FaultProxy = useResource(
    () => startFaultProxy({ ...app.database.connection, host: '127.0.0.1', port: Number(new URL(app.url).port) }),
    proxy => proxy.close(),
  )
  const agents: TestAgent[] = []
  const agentAt = (url: string, options: Partial<Parameters<typeof startAgent>[2]> = {}) => {
    const agent = startAgent(hoster.key, url, { upstream, ...options })
    agents.push(agent)
    return agent
  }
  const proxyUrl = () => `http://127.0.0.1:${proxy.connection.port}`

  afterEach(async () => {
    for (const agent of agents.splice(0)) agent.stop()
    proxy.pass()
    await idleConnections(app, 0, 0)
  })

  it('a process that is killed in mid-stream: the client gets an error, and nobody pays or earns', async () => {
    const customer = await app.customer()
    const host = startHostProcess(hoster.key, ['--gateway', app.url, '--upstream', upstream.baseUrl])
    await idleConnections(app, 4)
    upstream.respondWith(stall({ pieces: ['one', ' two'] }))
    const read = await streamUntil(await app.chat(customer, { ...body, stream: true }), 'two')
    host.child.kill('SIGKILL')
    expect(await host.ended).toBe('SIGKILL')
    expect(await read.rest()).toContain('"error"')
    const [row] = await app.settled(customer, 1)
    expect(row).toMatchObject({ outcome: 'interrupted', cost_nanos: 0n, hoster_share_nanos: 0n })
    expect(host.output()).not.toContain(hoster.key)
  })

  it('a process that gets SIGTERM ends its running stream, refuses the next request and exits with 0', async () => {
    const customer = await app.customer()
    const host = startHostProcess(hoster.key, ['--gateway', app.url, '--upstream', upstream.baseUrl])
    await idleConnections(app, 4)
    // A closed terminal sends this (issue 35).
    host.child.kill('SIGHUP')
    await host.printed('SIGHUP is ignored')
    const released = Promise.withResolvers<void>()
    upstream.respondWith(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'one' } }] })}\n\n`)
      await released.promise
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`)
      response.end('data: [DONE]\n\n')
    })
    const read = await streamUntil(await app.chat(customer, { ...body, stream: true }), 'one')
    host.child.kill('SIGTERM')
    await host.printed('Stopping')
    await idleConnections(app, 0)
    const refused = await app.chat(customer, body)
    expect(refused.status).toBe(500)
    expect(await refused.text()).toContain('no_eligible_offer')
    released.resolve()
    expect(await read.rest()).toContain('[DONE]')
    expect(await host.ended).toBe(0)
  })

  it('cut connections: the stream ends with an error, and the agent connects again', async () => {
    const customer = await app.customer()
    const agent = agentAt(proxyUrl())
    await idleConnections(app, 4)
    upstream.respondWith(stall({ pieces: ['one'] }))
    const read = await streamUntil(await app.chat(customer, { ...body, stream: true }), 'one')
    proxy.cutOnce()
    expect(await read.rest()).toContain('"error"')
    await agent.saw('disconnected')
    await idleConnections(app, 4)
    expect((await app.chat(customer, body)).status).toBe(200)
  })

  it('a slow network only makes requests slow', async () => {
    const customer = await app.customer()
    agentAt(proxyUrl())
    await idleConnections(app, 4)
    proxy.slow({ latencyMs: 30, bytesPerSecond: 50_000 })
    const response = await app.chat(customer, { ...body, stream: true })
    expect(await response.text()).toContain('[DONE]')
  })

  it('two agents with one key add their places, and one alone goes on', async () => {
    const customer = await app.customer()
    const first = agentAt(app.url, { slots: 1 })
    agentAt(app.url, { slots: 1 })
    await idleConnections(app, 2, 2)
    upstream.respondWith(stall({ pieces: ['one'] }), stall({ pieces: ['one'] }))
    const both = await Promise.all(
      [1, 2].map(async () => streamUntil(await app.chat(customer, { ...body, stream: true }), 'one')),
    )
    for (const { cancel } of both) await cancel()
    await idleConnections(app, 2, 2)
    first.stop()
    await idleConnections(app, 1, 1)
    expect((await app.chat(customer, body)).status).toBe(200)
  })

  it('200 streams at once over one agent', async () => {
    const customer = await app.customer({ tier: 'scale' })
    agentAt(app.url, { slots: 200 })
    await idleConnections(app, 200)
    const answers = await Promise.all(
      Array.from({ length: 200 }, async () =>
        (await app.chat(customer, { ...body, stream: true, max_tokens: 20 })).text(),
      ),
    )
    expect(answers.filter(text => !text.includes('[DONE]') || text.includes('"error"'))).toEqual([])
  })

  it('more requests than idle connections wait for connections that are opened for them', async () => {
    const customer = await app.customer()
    agentAt(app.url, { slots: 300 })
    await idleConnections(app, 256)
    upstream.always(stall({ pieces: ['one'] }))
    const running = await Promise.all(
      Array.from({ length: 260 }, async () =>
        streamUntil(await app.chat(customer, { ...body, stream: true, max_tokens: 2 }), 'one'),
      ),
    )
    for (const { cancel } of running) await cancel()
    upstream.always(answer())
    await idleConnections(app, 256)
  })

  it('a full agent refuses early, which is no fault', async () => {
    const customer = await app.customer()
    agentAt(app.url, { slots: 1 })
    await idleConnections(app, 1)
    upstream.respondWith(stall({ pieces: ['one'] }))
    const running = await streamUntil(await app.chat(customer, { ...body, stream: true }), 'one')
    const refused = await app.chat(customer, body)
    expect(refused.status).toBe(500)
    expect(refused.headers.get('retry-after')).not.toBeNull()
    await running.cancel()
    const rows = await app.settled(customer, 2)
    expect(rows.flatMap(row => row.attempts.map(({ outcome }) => outcome)).toSorted()).toEqual(['answered', 'busy'])
  })

  it('a changed clock moves the hours and nothing else', async () => {
    const customer = await app.customer()
    let epochMs = new Date(2026, 0, 1, 12).getTime()
    const clock: Clock = { epochMs: () => epochMs, monotonicMs: () => performance.now() }
    const agent = agentAt(app.url, { clock, hours: [{ startMinute: 11 * 60, endMinute: 13 * 60 }] })
    await idleConnections(app, 4)
    expect((await app.chat(customer, body)).status).toBe(200)
    epochMs -= 365 * 24 * 3_600_000 - 2 * 3_600_000
    await agent.saw('state', ({ state }) => state === 'paused')
    await idleConnections(app, 0)
    expect((await app.chat(customer, body)).status).toBe(500)
    epochMs -= 2 * 3_600_000
    await idleConnections(app, 4)
  })

  it('a model server that is too busy to list its models keeps its requests, and pauses the agent when it has none', async () => {
    const customer = await app.customer()
    const busy = await startScriptedUpstream()
    onTestFinished(() => busy.close())
    const agent = agentAt(app.url, { upstream: busy })
    await idleConnections(app, 4)
    busy.respondWith(stall({ pieces: ['one'] }))
    const running = await streamUntil(await app.chat(customer, { ...body, stream: true }), 'one')
    busy.respondToProbesWith((_request, response) => {
      response.destroy()
    })
    const before = busy.probes.length
    await vi.waitFor(() => expect(busy.probes.length).toBeGreaterThan(before + 2), WAIT_OPTIONS)
    expect((await app.chat(customer, body)).status).toBe(200)
    expect(agent.events.filter(each => each.event === 'state' && each.state === 'paused')).toHaveLength(0)
    await running.cancel()
    const { reason } = await agent.saw('state', ({ state }) => state === 'paused')
    expect(reason).toContain('does not answer')
  })

  it('a model server that is down pauses the agent, with the reason', async () => {
    const agent = agentAt(app.url, { upstream: { baseUrl: 'http://127.0.0.1:1/v1' } })
    const { reason } = await agent.saw('state', ({ state }) => state === 'paused')
    expect(reason).toContain('does not answer')
  })
})
