import type { CronItem, TaskList } from 'graphile-worker'
import { forgetAddresses } from '../base/db/audit-log.ts'
import { type Pool, transaction } from '../base/db/pool.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { deleteOldTraces } from '../identity/people/delete-old-traces.ts'
import { endGroupRoles } from '../identity/people/group-roles.ts'
import type { MarketplaceJobs } from '../market/marketplace/marketplace-jobs.ts'
import { PROBE_MODELS, VERIFY_HOSTER } from '../market/marketplace/verification.ts'
import { snapshotLearned } from '../market/supply/learned/learned-exchange.ts'
import { noteFailingServers } from '../market/supply/status/failing-incidents.ts'
import { pruneReports } from '../market/supply/status/write-report.ts'
import type { BackgroundAudits } from '../market/trust/audits/background-audits.ts'
import { AUDIT_HOSTER, type AuditSchedule, scheduleAudits } from '../market/trust/audits/schedule-audits.ts'
import { scoreHosters } from '../market/trust/score-hosters.ts'
import { writeTrustDays } from '../market/trust/write-trust-days.ts'
import { alertTasks, DeliveryFailed } from '../money/alerts/alert-jobs.ts'
import type { DeliverDeps } from '../money/alerts/deliver-alert.ts'
import { addUsagePartitions } from '../money/ledger/settlement/add-usage-partitions.ts'
import type { AutoTopUps } from '../money/payments/auto-top-up.ts'
import type { PaymentSync } from '../money/payments/payment-sync.ts'
import { foldHosterDays } from '../money/payouts/earnings.ts'
import type { PayoutSync } from '../money/payouts/payout-sync.ts'
import { type AlarmNotice, DELIVER_ALARM, deliverNotice, type NoticeDeps } from '../operator/alarms/alarm-notice.ts'
import { sumPlatformDays } from '../operator/platform-days.ts'
import { deleteExpiredClaims } from '../request/chat/idempotency/postgres-claim-store.ts'
import { type AuditJobDeps, auditLedger } from './audit-ledger.ts'
import { keepContent } from './keep-content.ts'
import { unlockAbandonedJobs } from './unlock-jobs.ts'

export interface TaskDeps {
  readonly pool: Pool
  /** See Database in start/compose. */
  readonly deskPool: Pool
  /** See AuditJobDeps. */
  readonly auditPool: Pool
  readonly evidence: AuditJobDeps['evidence']
  readonly clock: Clock
  readonly alerts: DeliverDeps
  /** How notices of alarms reach operators. */
  readonly notices: NoticeDeps
  readonly payments: Pick<PaymentSync, 'reconcile'>
  readonly autoTopUps: Pick<AutoTopUps, 'run'>
  readonly payouts: Pick<PayoutSync, 'reconcile'>
  readonly applyPayoutChanges: () => Promise<void>
  readonly closePromotionDays: () => Promise<void>
  readonly marketplace: MarketplaceJobs
  /** Looks for new models of providers. */
  readonly refreshModels: () => Promise<void>
  /** Seals stored secrets again after a rotation of the master key. */
  readonly resealSecrets: (signal: AbortSignal) => Promise<void>
  /** Makes the backup, or the restore test, that is due. */
  readonly backUp: (signal: AbortSignal) => Promise<void>
  /** Archives the usage rows that are no longer kept. */
  readonly archiveUsage: (signal: AbortSignal) => Promise<void>
  /** Writes the usage events of finished days. */
  readonly exportUsage: (signal: AbortSignal) => Promise<void>
  /** Null: audits are switched off. */
  readonly audits: (Pick<BackgroundAudits, 'start'> & { readonly schedule: () => AuditSchedule }) | null
  /** How long after its start a request counts for trust. */
  readonly evidenceDelayMs: number
  /** How long the audit log keeps the addresses of clients. */
  readonly keepAddressesMs: number
  /** How long recorded prompts and answers are kept. */
  readonly contentDays: number
  readonly log: Log
}

/** The schedule of the tasks, in UTC. */
export const timetable: CronItem[] = [
  // One audit at a time in the cluster. While one takes longer than five minutes, at most one more is queued.
  {
    task: 'audit_ledger',
    match: '*/5 * * * *',
    options: { queueName: 'audit', jobKey: 'audit_ledger', maxAttempts: 1 },
  },
  { task: 'add_usage_partitions', match: '17 3 * * *', options: { backfillPeriod: DAY_MS } },
  { task: 'keep_content', match: '7 * * * *', options: { jobKey: 'keep_content' } },
  { task: 'delete_expired_claims', match: '*/15 * * * *' },
  { task: 'delete_old_sessions', match: '31 * * * *' },
  { task: 'end_group_roles', match: '* * * * *', options: { jobKey: 'end_group_roles', maxAttempts: 1 } },
  { task: 'fold_hoster_days', match: '* * * * *', options: { jobKey: 'fold_hoster_days', maxAttempts: 1 } },
  { task: 'forget_addresses', match: '47 3 * * *' },
  { task: 'free_abandoned_jobs', match: '*/5 * * * *' },
  { task: 'prune_alerts', match: '23 3 * * *' },
  { task: 'prune_server_reports', match: '* * * * *', options: { jobKey: 'prune_server_reports' } },
  { task: 'snapshot_learned', match: '* * * * *', options: { jobKey: 'snapshot_learned', maxAttempts: 1 } },
  { task: 'start_auto_top_ups', match: '* * * * *', options: { jobKey: 'start_auto_top_ups', maxAttempts: 1 } },
  { task: 'reconcile_payments', match: '* * * * *', options: { jobKey: 'reconcile_payments', maxAttempts: 1 } },
  { task: 'reconcile_payouts', match: '* * * * *', options: { jobKey: 'reconcile_payouts', maxAttempts: 1 } },
  { task: 'apply_payout_changes', match: '* * * * *', options: { jobKey: 'apply_payout_changes', maxAttempts: 1 } },
  { task: 'close_promotion_days', match: '13 * * * *', options: { jobKey: 'close_promotion_days', maxAttempts: 1 } },
  { task: 'apply_hoster_prices', match: '* * * * *', options: { jobKey: 'apply_hoster_prices', maxAttempts: 1 } },
  { task: 'sum_platform_days', match: '* * * * *', options: { jobKey: 'sum_platform_days', maxAttempts: 1 } },
  { task: 'plan_hoster_audits', match: '* * * * *', options: { jobKey: 'plan_hoster_audits', maxAttempts: 1 } },
  { task: 'score_hosters', match: '* * * * *', options: { jobKey: 'score_hosters', maxAttempts: 1 } },
  // The last run of a day stands.
  { task: 'write_trust_days', match: '0,30,59 * * * *', options: { jobKey: 'write_trust_days', maxAttempts: 1 } },
  { task: 'refresh_models', match: '11 * * * *', options: { jobKey: 'refresh_models', maxAttempts: 1 } },
  { task: 'sum_platform_month', match: '41 3 * * *' },
  {
    task: 'reseal_secrets',
    match: '* * * * *',
    options: { queueName: 'reseal', jobKey: 'reseal_secrets', maxAttempts: 1 },
  },
  { task: 'back_up', match: '* * * * *', options: { queueName: 'backup', jobKey: 'back_up', maxAttempts: 1 } },
  // In the queue of backups: each may take hours, and with an audit two of them would leave no worker for the other jobs.
  {
    task: 'archive_usage',
    match: '23 4 * * *',
    options: { queueName: 'backup', jobKey: 'archive_usage', backfillPeriod: DAY_MS },
  },
  {
    task: 'export_usage',
    match: '53 4 * * *',
    options: { queueName: 'backup', jobKey: 'export_usage', backfillPeriod: DAY_MS },
  },
]

/** Returns the tasks by name. `stopping` cancels a running audit, backup, archive or export. */
export function createTasks(deps: TaskDeps, stopping: AbortSignal): TaskList {
  const {
    pool,
    deskPool,
    auditPool,
    evidence,
    clock,
    alerts,
    notices,
    payments,
    autoTopUps,
    payouts,
    applyPayoutChanges,
    closePromotionDays,
    marketplace,
    refreshModels,
    resealSecrets,
    backUp,
    archiveUsage,
    exportUsage,
    audits,
    evidenceDelayMs,
    keepAddressesMs,
    contentDays,
    log,
  } = deps
  return {
    audit_ledger: () => auditLedger({ pool: auditPool, evidence, clock, log }, stopping),
    add_usage_partitions: async () => {
      const added = await addUsagePartitions(pool, clock.epochMs())
      if (added.length > 0) log.info({ added }, 'created partitions for usage rows')
    },
    keep_content: () => keepContent({ pool, clock, contentDays, log }),
    delete_expired_claims: async () => {
      await deleteExpiredClaims(pool)
    },
    delete_old_sessions: () => deleteOldTraces(deskPool, clock.epochMs()),
    fold_hoster_days: async () => {
      await foldHosterDays(pool)
    },
    forget_addresses: async () => {
      const entries = await forgetAddresses(auditPool, new Date(clock.epochMs() - keepAddressesMs))
      if (entries > 0) log.info({ entries }, 'took old addresses out of the audit log')
    },
    free_abandoned_jobs: async () => {
      const freed = await unlockAbandonedJobs(pool)
      if (freed.length > 0) log.warn({ freed }, 'freed jobs of dead nodes')
    },
    snapshot_learned: () => snapshotLearned(pool),
    prune_server_reports: async () => {
      await noteFailingServers(pool, clock.epochMs())
      await pruneReports(pool, clock.epochMs())
    },
    start_auto_top_ups: async () => {
      await autoTopUps.run()
    },
    reconcile_payments: async () => {
      await payments.reconcile()
    },
    reconcile_payouts: async () => {
      await payouts.reconcile()
    },
    apply_payout_changes: () => applyPayoutChanges(),
    close_promotion_days: () => closePromotionDays(),
    end_group_roles: () => endGroupRoles(deskPool),
    refresh_models: () => refreshModels(),
    reseal_secrets: () => resealSecrets(stopping),
    back_up: () => backUp(stopping),
    archive_usage: () => archiveUsage(stopping),
    export_usage: () => exportUsage(stopping),
    apply_hoster_prices: () => marketplace.applyPrices(),
    [PROBE_MODELS]: payload => marketplace.probe((payload as { hoster_id: string }).hoster_id),
    [VERIFY_HOSTER]: payload => marketplace.verify((payload as { hoster_id: string }).hoster_id),
    sum_platform_days: () => transaction(pool, sql => sumPlatformDays(sql, clock.epochMs())),
    // On a pool without a statement timeout: 30 days of many customers take seconds.
    sum_platform_month: () => transaction(auditPool, sql => sumPlatformDays(sql, clock.epochMs(), true)),
    // On a pool without a statement timeout: a busy minute has many rows.
    score_hosters: () => scoreHosters({ pool: auditPool, clock, log, delayMs: evidenceDelayMs }),
    // Many hosters take longer than one statement may.
    write_trust_days: () => writeTrustDays({ pool: auditPool, clock }),
    plan_hoster_audits: async () => {
      if (audits !== null) await scheduleAudits(pool, audits.schedule())
    },
    [AUDIT_HOSTER]: async payload => {
      await audits?.start((payload as { endpoint_id: string }).endpoint_id)
    },
    [DELIVER_ALARM]: async (payload, { job }) => {
      const sent = await deliverNotice(notices, payload as AlarmNotice)
      if (sent.outcome !== 'failed') return
      if (job.attempts < job.max_attempts) throw new DeliveryFailed(sent.error ?? '')
      log.error({ error: sent.error }, 'a notice of an alarm was not delivered')
    },
    ...alertTasks(alerts),
  }
}
