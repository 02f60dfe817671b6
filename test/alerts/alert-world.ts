import { randomBytes } from 'node:crypto'
import { Logger, runOnce } from 'graphile-worker'
import { vi } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import type { NewAlertRule } from '../../src/base/domain/alert-rule.ts'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { type Scheduler, systemClock, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { alertTasks } from '../../src/money/alerts/alert-jobs.ts'
import { type AlertWatch, createAlertWatch } from '../../src/money/alerts/alert-watch.ts'
import { type AddedRule, addRule } from '../../src/money/alerts/alerts.ts'
import type { DeliverDeps } from '../../src/money/alerts/deliver-alert.ts'
import { createMailer, type SmtpSettings } from '../../src/money/alerts/mailer.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { createPinnedLookup } from '../../src/wire/egress/pinned-lookup.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'

export const noSmtp: SmtpSettings = {
  host: null,
  port: 587,
  security: 'none',
  user: null,
  password: null,
  from: 'Switchyard <gateway@example.com>',
}

/** The alerts of a gateway without the gateway: checks and job runs happen only when a test calls them. */
export interface AlertWorld {
  readonly database: TestDatabase
  readonly logged: string[]
  customer(balanceNanos: bigint): Promise<{ customerId: string; email: string }>
  rule(owner: { customerId: string; email: string }, rule: Partial<NewAlertRule>): Promise<AddedRule>
  /** Returns the watch of a node. Its checks always run, unless `everyMs` sets a pause between them. */
  watch(everyMs?: number, scheduler?: Scheduler): AlertWatch
  /** Runs all jobs that are due, as one node, `atOnce` at a time (default two). */
  runJobs(deps?: Partial<DeliverDeps> & { atOnce?: number }): Promise<void>
  /** Makes waiting jobs due and returns their remaining waits in seconds. */
  skipWait(): Promise<number[]>
  close(): Promise<void>
}

export async function createAlertWorld(
  options: { allowPrivate?: boolean; smtp?: SmtpSettings } = {},
): Promise<AlertWorld> {
  const { allowPrivate = true, smtp = noSmtp } = options
  const database = await createTestDatabase()
  const queuePool = createPool(database.gatewayConnection, { max: 6, applicationName: 'test queue', forQueue: true })
  const masterKeys = fixedKey(randomBytes(32))
  const logged: string[] = []
  const note = (facts: object, message: string) => {
    logged.push(`${message} ${JSON.stringify(facts)}`)
  }
  const log = { info: note, warn: note }
  let customers = 0
  return {
    database,
    logged,
    async customer(balanceNanos) {
      const email = `customer-${++customers}@example.com`
      return await transaction(database.pool, async sql => {
        const { customerId } = (await addCustomer(sql, { email, accountTier: 'standard' }))!
        await openAccount(sql, customerId, balanceNanos)
        return { customerId, email }
      })
    },
    rule: (owner, rule) =>
      addRule(
        database.pool,
        owner,
        { kind: 'low_balance', thresholdNanos: null, channel: 'email', target: null, ...rule },
        { masterKeys, allowPrivateUrls: allowPrivate },
      ),
    watch: (everyMs = 0, scheduler = systemScheduler) =>
      createAlertWatch({
        pool: database.pool,
        scheduler,
        caps: { byTier: new Map([['standard', 10_000_000_000n]]), fallback: 1_000_000_000n },
        log,
        everyMs,
      }),
    async runJobs({ atOnce = 2, ...deps } = {}) {
      await runOnce({
        pgPool: queuePool.pg,
        noHandleSignals: true,
        concurrency: atOnce,
        logger: new Logger(() => () => {}),
        taskList: alertTasks({
          sql: database.pool,
          clock: systemClock,
          masterKeys,
          mailer: createMailer(smtp, log),
          webhooks: { allowPrivate, publicLookup: createPinnedLookup() },
          ...deps,
        }),
      })
      // A failure is recorded after its job has ended.
      await vi.waitFor(async () => {
        const { rows } = await database.pool.query(
          'SELECT FROM graphile_worker._private_jobs WHERE locked_at IS NOT NULL',
        )
        if (rows.length > 0) throw new Error('a job still runs')
      }, WAIT_OPTIONS)
    },
    async skipWait() {
      const { rows } = await database.pool.query<{ wait_s: number }>(
        `UPDATE graphile_worker._private_jobs j SET run_at = now() FROM graphile_worker._private_jobs o
         WHERE o.id = j.id AND o.run_at > now() RETURNING extract(epoch FROM o.run_at - now())::float8 AS wait_s`,
      )
      return rows.map(row => row.wait_s)
    },
    async close() {
      await queuePool.end()
      await database.drop()
    },
  }
}
