import type { AgentDoor } from '../../http/agents/agent-door.ts'
import { createServerReporter } from '../../market/supply/status/server-reporter.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'
import type { Supply } from './supply.ts'

/** Reports what this node sees of its servers, for the operator and the status page. */
export function startServerReports(
  { version, scheduler, timeouts, log, started }: ComposeContext,
  { general }: Database,
  { node }: Money,
  { health, charges }: Supply,
  agentDoor: Pick<AgentDoor, 'connected'>,
): void {
  const reporter = createServerReporter({
    pool: general,
    nodeId: () => node.nodeId,
    version,
    offers: () => health.shared.report(),
    chargedNanos: charges.of,
    agents: () => agentDoor.connected(),
    scheduler,
    log,
    ...(timeouts.serverReportIntervalMs !== undefined && { everyMs: timeouts.serverReportIntervalMs }),
  })
  health.onChange(reporter.noteChange)
  reporter.start()
  started.defer(() => reporter.stop())
}
