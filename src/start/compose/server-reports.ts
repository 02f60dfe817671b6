import { join } from 'node:path'
import { markOf } from '../../base/secrets/master-keys.ts'
import type { AgentServer } from '../../http/agents/agent-server.ts'
import { createLearnedExchange } from '../../market/supply/learned/learned-exchange.ts'
import { measureDisks } from '../../market/supply/status/measure-disks.ts'
import { createServerReporter } from '../../market/supply/status/server-reporter.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'

/** Reports what this node sees of its servers, for the operator and the status page. */
export function startServerReports(
  { config, version, masterKeys, scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { node }: Money,
  { health, charges, breakers, attempts }: Supply,
  agentServer: Pick<AgentServer, 'connected'>,
): void {
  const reporter = createServerReporter({
    pool: general,
    nodeId: () => node.nodeId,
    version,
    offers: () => health.shared.report(),
    attempts: () => attempts.report(),
    customersKeptAway: breakers.customersKeptAway,
    charged: charges.of,
    agents: () => agentServer.connected(),
    masterKeys: () => masterKeys.all.map(markOf),
    disks: () => measureDisks({ data: config.dataDir, journal: join(config.dataDir, 'journal') }),
    scheduler,
    log,
    ...(timeouts.serverReportIntervalMs !== undefined && { everyMs: timeouts.serverReportIntervalMs }),
  })
  health.onChange(reporter.noteChange)
  reporter.start()
  started.defer(() => reporter.stop())
}

/** Takes in what other nodes and earlier ones have learned of the servers, then shares it every few seconds. */
export async function startLearned(
  { scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { node }: Money,
  { health }: Supply,
): Promise<void> {
  const learned = createLearnedExchange({
    pool: general,
    nodeId: () => node.nodeId,
    health: health.shared,
    scheduler,
    log,
    ...(timeouts.learnedIntervalMs !== undefined && { everyMs: timeouts.learnedIntervalMs }),
  })
  await learned.exchange()
  learned.start()
  started.defer(() => learned.stop())
}
