import { expect, it } from 'vitest'
import type { Sql } from '../../../base/db/pool.ts'
import { systemScheduler } from '../../../base/runtime/scheduler.ts'
import { createAgentPresence } from './agent-presence.ts'

it('an agent that connects counts as other nodes report it until it reports itself', async () => {
  const reported = { agentId: 'agent', endpointId: 'endpoint', slots: 4, slotsPerModel: 2, models: ['model'] }
  const agent = { agentId: 'agent', hasReported: false, slotsOf: () => 0 }
  const presence = createAgentPresence({
    sql: { query: async () => ({ rows: [reported] }) } as unknown as Sql,
    nodeId: () => 'node',
    stock: { agentsOf: () => [agent] },
    onChange() {},
    scheduler: systemScheduler,
    log: { warn() {} },
  })
  await presence.refresh()
  expect(presence.slotsOf('endpoint', 'model')).toBe(2)
  agent.hasReported = true
  expect(presence.slotsOf('endpoint', 'model')).toBe(0)
})
