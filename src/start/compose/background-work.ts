import type { TaskDeps } from '../../jobs/create-tasks.ts'
import { startJobs } from '../../jobs/start-jobs.ts'
import type { Alerts } from './alerts.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import type { PaymentParts } from './payments.ts'
import type { PayoutParts } from './payouts.ts'
import type { Service } from './service.ts'

/** Starts the job queue, then the watch for new alerts. */
export async function startBackgroundWork(
  { config, clock, evidence, log, started }: ComposeContext,
  { general, desk, queue, audit }: Database,
  { watch, delivery }: Alerts,
  { sync, autoTopUps }: PaymentParts,
  payouts: PayoutParts,
  { jobs: marketplace }: Marketplace,
  audits: TaskDeps['audits'],
  { metrics }: Service,
): Promise<void> {
  const jobs = await startJobs({
    pool: general,
    deskPool: desk,
    queuePool: queue,
    auditPool: audit,
    evidence,
    clock,
    alerts: delivery,
    payments: sync,
    autoTopUps,
    payouts: payouts.sync,
    applyPayoutChanges: payouts.applyChanges,
    closePromotionDays: payouts.closePromotionDays,
    marketplace,
    audits,
    evidenceDelayMs: config.trust.evidenceDelayMinutes * 60_000,
    onQueueRestart: metrics.queueRestart,
    log,
  })
  started.defer(() => jobs.stop())
  watch.start()
  started.defer(() => watch.stop())
}
