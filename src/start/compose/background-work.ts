import type { TaskDeps } from '../../jobs/create-tasks.ts'
import { startJobs } from '../../jobs/start-jobs.ts'
import type { Alerts } from './alerts.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import type { PaymentParts } from './payments.ts'
import type { PayoutParts } from './payouts.ts'

/** Starts the job queue, then the watch for new alerts. */
export async function startBackgroundWork(
  { config, clock, log, started }: ComposeContext,
  { general, queue, audit }: Database,
  { watch, delivery }: Alerts,
  { sync, autoTopUps }: PaymentParts,
  payouts: PayoutParts,
  { jobs: marketplace }: Marketplace,
  audits: TaskDeps['audits'],
): Promise<void> {
  const jobs = await startJobs({
    pool: general,
    queuePool: queue,
    auditPool: audit,
    clock,
    alerts: delivery,
    payments: sync,
    autoTopUps,
    payouts: payouts.sync,
    marketplace,
    audits,
    evidenceDelayMs: config.trust.evidenceDelayMinutes * 60_000,
    log,
  })
  started.defer(() => jobs.stop())
  watch.start()
  started.defer(() => watch.stop())
}
