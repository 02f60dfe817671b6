import type { TaskList } from 'graphile-worker'
import { pruneAlerts } from './alert-store.ts'
import { type DeliverDeps, deliverAlert } from './deliver-alert.ts'
import { DELIVER_ALERT } from './enqueue-deliveries.ts'

/** How long alerts and the log of their deliveries are kept. */
const KEPT_DAYS = 30

/** An attempt that failed, for the job queue to try again later. Nothing that an operator has to see to. */
export class DeliveryFailed extends Error {
  override name = 'DeliveryFailed'
}

/** The tasks of the job queue that belong to alerts. */
export function alertTasks(deps: DeliverDeps): TaskList {
  return {
    [DELIVER_ALERT]: async (payload, { job }) => {
      const sent = await deliverAlert(deps, (payload as { alert_id: string }).alert_id)
      // After the last attempt the job is over: what is given up is in the delivery log, and need not stay in the queue.
      if (sent?.outcome === 'failed' && job.attempts < job.max_attempts) throw new DeliveryFailed(sent.error ?? '')
    },
    prune_alerts: async () => {
      await pruneAlerts(deps.sql, KEPT_DAYS)
    },
  }
}
