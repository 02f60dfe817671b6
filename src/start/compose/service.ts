import type { Endpoint } from '../../http/endpoint.ts'
import { healthz, metricsText, readyz } from '../../http/endpoints/health.ts'
import { createInFlight, type InFlight } from '../../http/in-flight.ts'
import { createMetrics, type Metrics } from '../../http/metrics.ts'
import { readLastAudit } from '../../ledger/audit/last-audit.ts'
import { createLastAuditView } from '../../ledger/audit/last-audit-view.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'

/** Watched by operators and load balancers: running requests, metrics, health. */
export interface Service {
  readonly inFlight: InFlight
  readonly metrics: Metrics
  readonly endpoints: readonly Endpoint[]
}

export function createService(
  { config, scheduler, combinedMetrics }: ComposeContext,
  { general, lookups }: Database,
  { ledger }: Money,
): Service {
  const inFlight = createInFlight({ max: config.server.maxInFlight })
  const metrics = createMetrics({
    inFlight: () => inFlight.count,
    settleQueueLength: () => ledger.pending.settlements,
    lastAudit: createLastAuditView({ read: () => readLastAudit(general), scheduler }),
  })
  return {
    inFlight,
    metrics,
    endpoints: [
      healthz(),
      readyz({ isDraining: () => inFlight.isClosed, pingDatabase: () => lookups.query('SELECT 1') }),
      metricsText({
        contentType: metrics.registry.contentType,
        text: combinedMetrics ?? (() => metrics.registry.metrics()),
      }),
    ],
  }
}
