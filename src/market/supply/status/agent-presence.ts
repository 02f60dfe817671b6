import type { Sql } from '../../../base/db/pool.ts'
import type { Log } from '../../../base/runtime/log.ts'
import { createPeriodicWork } from '../../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { REPORTED_MODELS_MAX, type ReportedAgent } from './write-report.ts'

/** Which agents are connected to any node. Other nodes report theirs every few seconds; no request waits for it. */
export interface AgentPresence {
  /**
   * How many requests at once the agents of an endpoint take for a model of their server; 0: none has announced it and
   * takes requests.
   */
  slotsOf(endpointId: string, upstreamModel: string): number
  /** Reads the reports of the other nodes. Rejects when PostgreSQL is unavailable; what was known stays. */
  refresh(): Promise<void>
  /** Reads them every few seconds until stopped. */
  start(): void
  /** Never rejects. */
  stop(): Promise<void>
}

/** The agents that are connected to this node. */
interface OwnAgents {
  agentsOf(
    endpointId: string,
  ): Iterable<{ readonly agentId: string; readonly hasReported: boolean; slotsOf(upstreamModel: string): number }>
}

const EVERY_MS = 2_000
/** Nodes report every five seconds. A node that has been silent for longer has lost its agents. */
const REPORT_AGE_MS = 20_000

export function createAgentPresence(deps: {
  readonly sql: Sql
  readonly nodeId: () => string
  readonly stock: OwnAgents
  /** Called when other nodes have reported a change. */
  readonly onChange: () => void
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): AgentPresence {
  const { sql, stock, onChange, scheduler, log, everyMs = EVERY_MS } = deps
  /** What other nodes have reported, by endpoint. */
  let elsewhere: ReadonlyMap<string, readonly PresentAgent[]> = new Map()
  let text = ''

  async function refresh(): Promise<void> {
    const agents = await readPresent(sql, deps.nodeId(), scheduler.epochMs() - REPORT_AGE_MS)
    const found = JSON.stringify(agents)
    if (found === text) return
    text = found
    elsewhere = Map.groupBy(agents, ({ endpointId }) => endpointId)
    onChange()
  }

  const refreshing = createPeriodicWork({
    work: refresh,
    everyMs,
    failure: 'the agents of other nodes could not be read; trying again',
    scheduler,
    log,
  })

  return {
    slotsOf(endpointId, upstreamModel) {
      // An agent that is connected here and elsewhere counts once. This node knows it best, from its first report on.
      const slots = new Map<string, number>()
      for (const agent of elsewhere.get(endpointId) ?? []) slots.set(agent.agentId, slotsFor(agent, upstreamModel))
      for (const agent of stock.agentsOf(endpointId))
        if (agent.hasReported) slots.set(agent.agentId, agent.slotsOf(upstreamModel))
      return slots.values().reduce((sum, each) => sum + each, 0)
    },
    refresh,
    start: refreshing.start,
    stop: refreshing.stop,
  }
}

type PresentAgent = Pick<ReportedAgent, 'agentId' | 'endpointId' | 'slots' | 'slotsPerModel' | 'models'>

/** A report names the first models only. */
function slotsFor({ models, slots, slotsPerModel }: PresentAgent, upstreamModel: string): number {
  const isAnnounced = models.includes(upstreamModel) || models.length >= REPORTED_MODELS_MAX
  return isAnnounced ? Math.min(slots, slotsPerModel) : 0
}

/** Returns the agents that take requests, as other nodes have reported them since `sinceMs`. */
async function readPresent(sql: Sql, nodeId: string, sinceMs: number): Promise<PresentAgent[]> {
  const { rows } = await sql.query<PresentAgent>(
    `SELECT DISTINCT a."agentId", a."endpointId", a.slots, a."slotsPerModel", a.models
       FROM node_report, jsonb_to_recordset(agents) AS a("agentId" text, "endpointId" text, state text, slots int, "slotsPerModel" int, models jsonb)
      WHERE node_id <> $1 AND at > $2 AND a.state = 'open' AND a."endpointId" IS NOT NULL AND a."slotsPerModel" IS NOT NULL
      ORDER BY 1, 2, 3, 4, 5`,
    [nodeId, new Date(sinceMs)],
  )
  return rows
}
