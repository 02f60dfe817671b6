import { randomBytes, randomUUID } from 'node:crypto'
import { vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { HosterScope } from '../../src/base/domain/hoster-access.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { type Clock, systemClock } from '../../src/base/runtime/scheduler.ts'
import { type AgentEvent, type AgentOptions, type RunningAgent, runAgent } from '../../src/market/agent/run-agent.ts'
import { issueHosterKey } from '../../src/market/marketplace/hoster-keys.ts'
import { activateHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { addHoster } from '../../src/market/supply/hosters/add-hoster.ts'
import type { HostedModel } from '../../src/market/supply/hosters/hosted-model.ts'
import { AGENT_BASE_URL } from '../../src/market/supply/hosters/hosters.ts'
import type { TestApp } from '../harness/app.ts'
import { readUntil } from '../harness/event-stream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'

interface WithPool {
  readonly database: Pick<TestApp['database'], 'pool'>
}

export interface AgentHoster {
  readonly hosterId: string
  readonly endpointId: string
  /** With the scope `serve`. */
  readonly key: string
}

/** Adds an active hoster with models that agents serve, and a key. */
export async function addAgentHoster(
  { database, app }: WithPool & Partial<Pick<TestApp, 'app'>>,
  models: readonly Partial<HostedModel>[] = [{}],
): Promise<AgentHoster> {
  const { pool } = database
  const name = `hoster-${randomUUID()}`
  const added = {
    name,
    baseUrl: 'http://127.0.0.1:1/v1',
    trustScore: 0.9,
    shareBps: 8_000,
    models: models.map(model => ({ ...standardModel, ...model })),
  }
  const { hosterId, endpointId } = await addHoster(pool, added, {
    masterKeys: fixedKey(randomBytes(32)),
    allowPrivateUrls: true,
  })
  await pool.query(`UPDATE hoster_endpoint SET transport = 'agent', base_url = $2 WHERE endpoint_id = $1`, [
    endpointId,
    AGENT_BASE_URL,
  ])
  await activateHoster(pool, name)
  const key = await hosterKey({ database }, hosterId, ['serve'])
  await app?.noticeChanges()
  return { hosterId, endpointId, key }
}

const standardModel: HostedModel = {
  modelId: 'test-model',
  price: { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n },
  contextTokens: 32_768,
  maxOutputTokens: 8_192,
  features: [],
}

export async function hosterKey(app: WithPool, hosterId: string, scopes: readonly HosterScope[]): Promise<string> {
  const { key } = await transaction(app.database.pool, sql => issueHosterKey(sql, { hosterId, name: 'test', scopes }))
  return key
}

export interface TestAgent extends RunningAgent {
  readonly events: readonly AgentEvent[]
  /** Waits for an event. */
  saw<Kind extends AgentEvent['event']>(
    event: Kind,
    matches?: (found: Extract<AgentEvent, { event: Kind }>) => boolean,
  ): Promise<Extract<AgentEvent, { event: Kind }>>
}

export interface TestAgentOptions extends Partial<Omit<AgentOptions, 'upstream'>> {
  readonly upstream: { readonly baseUrl: string }
  readonly clock?: Clock
  readonly checkMs?: number
}

/** Starts an agent in this process. */
export function startAgent(key: string, gateway: string, options: TestAgentOptions): TestAgent {
  const { upstream, clock = systemClock, checkMs = 50, ...others } = options
  const events: AgentEvent[] = []
  const agent = runAgent(
    {
      gateways: [gateway],
      key,
      endpoint: null,
      upstream: { baseUrl: upstream.baseUrl, key: null },
      models: null,
      slots: 4,
      slotsPerModel: others.slots ?? 4,
      hours: [],
      tokensPerMinute: null,
      pauseCommand: null,
      powerLimitWatts: null,
      ...others,
    },
    { version: 'test', clock, random: () => 0, report: event => events.push(event), checkMs },
  )
  return {
    refused: agent.refused,
    drain: () => agent.drain(),
    stop: () => agent.stop(),
    events,
    saw: (event, matches = () => true) =>
      vi.waitFor(() => {
        const found = events.find(each => each.event === event && matches(each as never))
        if (found === undefined) throw new Error(`no event ${event} in ${JSON.stringify(events)}`)
        return found as never
      }, WAIT_OPTIONS),
  }
}

/** Waits until the agents of a gateway are connected and have this many idle connections. */
export async function idleConnections(app: TestApp, count: number, connected = 1): Promise<void> {
  await vi.waitFor(async () => {
    const metrics = await app.metrics()
    const found = [gauge(metrics, 'switchyard_agents_connected'), gauge(metrics, 'switchyard_agent_idle_connections')]
    if (found[0] !== connected || found[1] !== count) throw new Error(`connected and idle: ${found}`)
  }, WAIT_OPTIONS)
}

function gauge(metrics: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)?.[1])
}

/** Reads a stream until a text has arrived. `rest` reads on to the end, also of a broken stream. */
export async function streamUntil(
  response: Response,
  text: string,
): Promise<{ rest(): Promise<string>; cancel(): Promise<void> }> {
  const reader = response.body!.getReader()
  await readUntil(reader, text)
  return {
    async rest() {
      const decoder = new TextDecoder()
      let all = ''
      for (let read = await reader.read(); !read.done; read = await reader.read()) all += decoder.decode(read.value)
      return all
    },
    cancel: () => reader.cancel(),
  }
}
