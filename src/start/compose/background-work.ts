import { DAY_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import type { TaskDeps } from '../../jobs/create-tasks.ts'
import { startJobs } from '../../jobs/start-jobs.ts'
import { loadPriceLibrary } from '../../market/supply/providers/price-library.ts'
import { createModelRefresh } from '../../operator/model-refresh.ts'
import { readEndpoint } from '../config/read-endpoint.ts'
import type { Alerts } from './alerts.ts'
import { createBackupJob } from './backup-job.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Marketplace } from './marketplace.ts'
import { createRotationJob } from './master-keys.ts'
import type { PaymentParts } from './payments.ts'
import type { PayoutParts } from './payouts.ts'
import type { Service } from './service.ts'
import { createUsageJobs } from './usage-jobs.ts'

interface WorkParts {
  readonly database: Database
  readonly alerts: Alerts
  readonly payments: PaymentParts
  readonly payouts: PayoutParts
  readonly marketplace: Marketplace
  readonly audits: TaskDeps['audits']
  readonly service: Service
}

/** Starts the job queue, then the watch for new alerts. */
export async function startBackgroundWork(
  context: ComposeContext,
  {
    database,
    alerts: { watch, delivery, notices },
    payments: { sync, autoTopUps },
    payouts,
    marketplace: { jobs: marketplace },
    audits,
    service: { metrics },
  }: WorkParts,
): Promise<void> {
  const { config, masterKeys, clock, evidence, log, started } = context
  const { general, desk, queue, audit } = database
  const jobs = await startJobs({
    pool: general,
    deskPool: desk,
    queuePool: queue,
    auditPool: audit,
    evidence,
    clock,
    alerts: delivery,
    notices,
    payments: sync,
    autoTopUps,
    payouts: payouts.sync,
    applyPayoutChanges: payouts.applyChanges,
    closePromotionDays: payouts.closePromotionDays,
    marketplace,
    refreshModels: createModelRefresh({ pool: desk, masterKeys, readEndpoint, library: loadPriceLibrary, clock, log })
      .refreshAll,
    resealSecrets: createRotationJob(context, database),
    backUp: createBackupJob(context, database),
    ...createUsageJobs(context, database),
    audits,
    evidenceDelayMs: config.trust.evidenceDelayMinutes * MINUTE_MS,
    keepAddressesMs: config.audit.keepAddressesDays * DAY_MS,
    contentDays: config.content.retentionDays,
    onQueueRestart: metrics.queueRestart,
    onJobFailure: metrics.jobFailure,
    log,
  })
  started.defer(() => jobs.stop())
  watch.start()
  started.defer(() => watch.stop())
}
