import type { Log } from '../base/runtime/log.ts'
import { startMetricsServer } from '../http/metrics-server.ts'
import { allowedHostsOf } from './allowed-hosts-of.ts'
import type { Config } from './config/config.ts'

/** Starts the metrics server unless the configuration disables it. Returns the function that stops it. */
export async function startMetrics(
  config: Config,
  text: () => Promise<string>,
  log: Pick<Log, 'info' | 'warn'>,
): Promise<() => Promise<void>> {
  const { enabled, host, port } = config.metrics
  if (!enabled) return async () => {}
  return await startMetricsServer({ host, port, text, allowedHosts: allowedHostsOf(config), log })
}
