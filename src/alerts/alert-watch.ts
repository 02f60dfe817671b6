import { type Pool, type Sql, transaction } from '../db/pool.ts'
import type { Caller } from '../domain/caller.ts'
import type { ErrorCode } from '../domain/errors.ts'
import type { Log } from '../runtime/log.ts'
import type { Scheduler } from '../runtime/scheduler.ts'
import { lowestUuidAt } from '../runtime/uuid.ts'
import {
  detectDailySpend,
  detectKeyLimits,
  detectLargeCharges,
  detectLowBalances,
  type TierCaps,
} from './detect-alerts.ts'
import { enqueueDeliveries } from './enqueue-deliveries.ts'

export interface AlertWatch {
  /** Notes a refusal that somebody may want to be told of: in memory until the next look, once however often it happens. */
  noteRefusal(caller: Pick<Caller, 'customerId' | 'keyId'>, code: ErrorCode): void
  /** Looks now. Rejects when the database cannot be asked; what was noted is kept. Returns how many alerts were made. */
  look(): Promise<number>
  /** Looks every `everyMs` until stopped. */
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
const DAY_MS = 86_400_000

/**
 * Finds what customers want to be told of by looking at the books every 15 seconds, so that no request does anything for it. Of all nodes
 * one looks; without rules nobody does.
 */
export function createAlertWatch({ pool, scheduler, caps, log, everyMs = EVERY_MS }: AlertWatchDeps): AlertWatch {
  /** Customers whom the daily cap refused something, and keys whose own limit did, with when that was the last time. */
  let refused = { customers: new Set<string>(), keys: new Map<string, number>() }
  let running: Promise<unknown> | undefined
  let cancel = () => {}
  let stopped = false

  async function look() {
    const noted = refused
    refused = { customers: new Set(), keys: new Map() }
    try {
      const made = await transaction(pool, async sql => {
        // What was refused is known to this node alone; the books are the same for all.
        const isMine = await claimLook(sql, everyMs)
        const found: string[] = []
        if (isMine) found.push(...(await detectLowBalances(sql)))
        if (isMine || noted.customers.size > 0) found.push(...(await detectDailySpend(sql, caps, [...noted.customers])))
        if (noted.keys.size > 0) {
          const nowMs = scheduler.monotonicMs()
          const agoMs = new Map(Array.from(noted.keys, ([keyId, atMs]) => [keyId, nowMs - atMs]))
          found.push(...(await detectKeyLimits(sql, agoMs)))
        }
        if (isMine) found.push(...(await detectLargeCharges(sql, lowestUuidAt(scheduler.epochMs() - DAY_MS))))
        await enqueueDeliveries(sql, found)
        return found.length
      })
      if (made > 0) log.info({ alerts: made }, 'alerts were raised')
      return made
    } catch (error) {
      for (const customerId of noted.customers) refused.customers.add(customerId)
      for (const [keyId, atMs] of noted.keys) refused.keys.set(keyId, refused.keys.get(keyId) ?? atMs)
      throw error
    }
  }

  function schedule() {
    cancel = scheduler.after(everyMs, () => {
      running = look()
        .catch(error => log.warn({ err: error }, 'alerts could not be looked for; trying again'))
        .finally(() => {
          if (!stopped) schedule()
        })
    })
  }

  return {
    noteRefusal({ customerId, keyId }, code) {
      if (code === 'daily_spend_cap_reached') refused.customers.add(customerId)
      else if (code === 'key_spend_limit_reached') refused.keys.set(keyId, scheduler.monotonicMs())
    },
    look,
    start: schedule,
    async stop() {
      stopped = true
      cancel()
      await running
    },
  }
}

/** Whether this look is ours to make: there are rules, and no other node looked just now or is looking. */
async function claimLook(sql: Sql, everyMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE alert_watch SET looked_at = now()
     WHERE ctid IN (
       SELECT ctid FROM alert_watch
       -- One in the future is of a clock that has been set back since: nobody waits until then.
       WHERE (looked_at <= now() - make_interval(secs => $1) OR looked_at > now() + make_interval(secs => $1))
         AND EXISTS (SELECT FROM alert_rule WHERE disabled_at IS NULL)
       FOR UPDATE SKIP LOCKED)`,
    // A little early: two nodes whose timers drift would otherwise look every second time.
    [(everyMs / 1000) * 0.9],
  )
  return rowCount === 1
}
