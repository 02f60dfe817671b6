import type { TaskList } from 'graphile-worker'
import { pruneAlerts } from './alert-store.ts'
import { type DeliverDeps, deliverAlert } from './deliver-alert.ts'
import { DELIVER_ALERT } from './enqueue-deliveries.ts'

/** How long alerts and the log of their deliveries are kept. */
const KEPT_DAYS = 30

/** A failed delivery attempt, which the job queue repeats. The operator need not act. */
export class DeliveryFailed extends Error {
  override name = 'DeliveryFailed'
}

/** The tasks of the job queue that belong to alerts. */
export function alertTasks(deps: DeliverDeps): TaskList {
  return {
    [DELIVER_ALERT]: async (payload, { job }) => {
      const sent = await deliverAlert(deps, (payload as { alert_id: string }).alert_id)
      // After the last attempt the job ends normally: the queue need not keep it, since the delivery log has the
      // failure.
      if (sent?.outcome === 'failed' && job.attempts < job.max_attempts) throw new DeliveryFailed(sent.error ?? '')
    },
    prune_alerts: async () => {
      await pruneAlerts(deps.sql, KEPT_DAYS)
    },
  }
}
