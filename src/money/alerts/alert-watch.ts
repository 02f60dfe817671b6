import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import type { Caller } from '../../base/domain/caller.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import type { ErrorCode } from '../../base/domain/errors.ts'
import type { Log } from '../../base/runtime/log.ts'
import { createPeriodicWork } from '../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import { lowestUuidAt } from '../../base/runtime/uuid.ts'
import { detectAlerts, type TierCaps } from './detect-alerts.ts'
import { enqueueDeliveries } from './enqueue-deliveries.ts'

export interface AlertWatch {
  /** Notes a refusal that may need an alert, in memory until the next check. Repetitions count once. */
  noteRefusal(caller: Pick<Caller, 'customerId' | 'keyId'>, code: ErrorCode): void
  /**
   * Checks now and returns how many alerts were created. Rejects when the database is unavailable; noted
   * refusals are kept.
   */
  check(): Promise<number>
  /** Checks every `everyMs` until stopped. */
  start(): void
  stop(): Promise<void>
}

export interface AlertWatchDeps {
  readonly pool: Pool
  readonly scheduler: Scheduler
  readonly caps: TierCaps
  readonly log: Pick<Log, 'warn' | 'info'>
  readonly everyMs?: number
}

const EVERY_MS = 15_000

/**
 * Detects alerts by checking the database every 15 seconds, so that requests do no work for alerts. One of
 * the nodes checks at a time; without rules none does.
 */
export function createAlertWatch({ pool, scheduler, caps, log, everyMs = EVERY_MS }: AlertWatchDeps): AlertWatch {
  /**
   * Refusals since the last check: customers refused by their daily cap, and keys refused by their own limit with
   * the time of the last refusal (monotonic ms).
   */
  let refused = { customers: new Set<string>(), keys: new Map<string, number>() }

  async function check() {
    const noted = refused
    refused = { customers: new Set(), keys: new Map() }
    try {
      const created = await transaction(pool, async sql => {
        // Each node checks its own refusals, but only one of them checks the database.
        const isClaimed = await claimCheck(sql, everyMs)
        const nowMs = scheduler.monotonicMs()
        const found = await detectAlerts(sql, {
          isClaimed,
          caps,
          cappedCustomers: [...noted.customers],
          refusedKeysAgoMs: new Map(Array.from(noted.keys, ([keyId, atMs]) => [keyId, nowMs - atMs])),
          sinceRequestId: lowestUuidAt(scheduler.epochMs() - DAY_MS),
        })
        await enqueueDeliveries(sql, found)
        return found.length
      })
      if (created > 0) log.info({ alerts: created }, 'alerts were raised')
      return created
    } catch (error) {
      for (const customerId of noted.customers) refused.customers.add(customerId)
      for (const [keyId, atMs] of noted.keys) refused.keys.set(keyId, refused.keys.get(keyId) ?? atMs)
      throw error
    }
  }

  const checking = createPeriodicWork({
    work: check,
    everyMs,
    failure: 'could not check for alerts; trying again',
    scheduler,
    log,
  })

  return {
    noteRefusal({ customerId, keyId }, code) {
      if (code === 'daily_spend_cap_reached') refused.customers.add(customerId)
      else if (code === 'key_spend_limit_reached') refused.keys.set(keyId, scheduler.monotonicMs())
    },
    check,
    start: checking.start,
    stop: checking.stop,
  }
}

/**
 * Whether this node must check the database: there are rules, and no other node is checking or has just
 * checked.
 */
async function claimCheck(sql: Sql, everyMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE alert_watch SET looked_at = now()
     WHERE ctid IN (
       SELECT ctid FROM alert_watch
       -- A time in the future was written before the clock was set back. Do not wait for it.
       WHERE (looked_at <= now() - make_interval(secs => $1) OR looked_at > now() + make_interval(secs => $1))
         AND EXISTS (SELECT FROM alert_rule WHERE disabled_at IS NULL)
       FOR UPDATE SKIP LOCKED)`,
    // Slightly less than the interval: otherwise a check that runs a moment early would be skipped.
    [(everyMs / 1000) * 0.9],
  )
  return rowCount === 1
}
