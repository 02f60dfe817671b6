import { randomBytes } from 'node:crypto'
import { beforeEach, type Mock, vi } from 'vitest'
import { type Pool, transaction } from '../../src/base/db/pool.ts'
import { systemClock, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { type Jobs, startJobs } from '../../src/jobs/start-jobs.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { createAlertWatch } from '../../src/money/alerts/alert-watch.ts'
import { addRule } from '../../src/money/alerts/alerts.ts'
import { createMailer } from '../../src/money/alerts/mailer.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { createCreditEvidence } from '../../src/money/ledger/credit-evidence.ts'
import { createPinnedLookup } from '../../src/wire/egress/pinned-lookup.ts'
import { noSmtp } from '../alerts/alert-world.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../alerts/webhook-receiver.ts'
import type { TestDatabase } from '../harness/database.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

/** A database, a webhook receiver and a mocked log for tests of the job queue. */
export interface JobWorld {
  readonly database: TestDatabase
  readonly receiver: WebhookReceiver
  readonly log: Record<'info' | 'warn' | 'error' | 'debug', Mock<(facts: object, message: string) => void>>
  readonly onQueueRestart: Mock<() => void>
  /** Starts the jobs of a node whose queue uses `queuePool`. The other pools default to that of the database. */
  startJobs(queuePool: Pool, pool?: Pool, auditPool?: Pool): Promise<Jobs>
  /** Creates a customer with a low balance and an alert for it, to be delivered to the receiver. */
  raiseAlert(): Promise<void>
  /** Returns the task names of the locked jobs. */
  lockedTasks(): Promise<string[]>
}

/** Starts the parts of a job world before each test and stops them after it. */
export function useJobWorld(): JobWorld {
  const masterKeys = new MasterKeys([randomBytes(32)])
  const database = useTestDatabase('test')
  const receiver = useResource(startWebhookReceiver, server => server.close(), 'test')
  const logMock = () => vi.fn<(facts: object, message: string) => void>()
  const onQueueRestart = vi.fn<() => void>()
  const log = { info: logMock(), warn: logMock(), error: logMock(), debug: logMock() }
  beforeEach(() => {
    for (const method of [...Object.values(log), onQueueRestart]) method.mockReset()
  })
  return {
    database,
    receiver,
    log,
    onQueueRestart,
    startJobs: (queuePool, pool = database.pool, auditPool = database.pool) =>
      startJobs({
        pool,
        deskPool: database.pool,
        evidence: createCreditEvidence(masterKeys),
        auditPool,
        queuePool,
        clock: systemClock,
        notices: {
          clock: systemClock,
          mailer: createMailer(noSmtp, log),
          webhook: null,
          webhooks: { allowPrivate: true, publicLookup: createPinnedLookup() },
        },
        alerts: {
          sql: database.pool,
          clock: systemClock,
          masterKeys,
          mailer: createMailer(noSmtp, log),
          webhooks: { allowPrivate: true, publicLookup: createPinnedLookup() },
        },
        payments: { reconcile: async () => ({ looked: 0, booked: 0, mismatched: 0, failed: 0 }) },
        autoTopUps: { run: async () => 0 },
        payouts: { reconcile: async () => ({ looked: 0, booked: 0, mismatched: 0, failed: 0 }) },
        applyPayoutChanges: async () => {},
        closePromotionDays: async () => {},
        audits: null,
        refreshModels: async () => {},
        backUp: async () => {},
        archiveUsage: async () => {},
        exportUsage: async () => {},
        resealSecrets: async () => {},
        keepAddressesMs: 365 * 86_400_000,
        marketplace: { verify: async () => {}, probe: async () => {}, applyPrices: async () => {} },
        evidenceDelayMs: 15 * 60_000,
        contentDays: 30,
        onQueueRestart,
        onJobFailure: () => {},
        pollMs: 250,
        log,
      }),
    async raiseAlert() {
      const email = `${randomBytes(8).toString('hex')}@example.com`
      const customerId = await transaction(database.pool, async sql => {
        const { customerId } = (await addCustomer(sql, { email, accountTier: 'standard' }))!
        await openAccount(sql, customerId, 1_000_000_000n)
        return customerId
      })
      await addRule(
        database.pool,
        { customerId, email },
        { kind: 'low_balance', thresholdNanos: 5_000_000_000n, channel: 'webhook', target: receiver.url },
        { masterKeys, allowPrivateUrls: true },
      )
      const caps = { byTier: new Map(), fallback: 1_000_000_000n }
      await createAlertWatch({ pool: database.pool, scheduler: systemScheduler, caps, log, everyMs: 0 }).check()
    },
    async lockedTasks() {
      const { rows } = await database.pool.query<{ task: string }>(
        'SELECT task_identifier AS task FROM graphile_worker.jobs WHERE locked_at IS NOT NULL ORDER BY 1',
      )
      return rows.map(({ task }) => task)
    },
  }
}
