import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { SettleEffect } from '../ledger-store.ts'
import type { PendingSettlement } from './pending-settlement.ts'

/** A full disk refuses every record, and the log is often on the same disk. */
const LOG_EVERY_MS = 10_000

/**
 * Logs that the journal refuses records: at most once in ten seconds, with the number of records since the
 * last line.
 */
export function createJournalRefusalLog(
  scheduler: Pick<Scheduler, 'monotonicMs'>,
  log: Pick<Log, 'error'> | undefined,
): (failure: unknown) => void {
  let records = 0
  let loggedMs = -Infinity
  return failure => {
    records++
    const nowMs = scheduler.monotonicMs()
    if (nowMs < loggedMs + LOG_EVERY_MS) return
    log?.error({ err: failure, records }, 'the journal refuses records; answers wait until their charges are committed')
    records = 0
    loggedMs = nowMs
  }
}

/** Logs each settlement of a batch that was not committed as requested, unless a repetition or a replay explains it. */
export function logSettleEffects(
  log: Pick<Log, 'warn'> | undefined,
  batch: readonly PendingSettlement[],
  effects: ReadonlyMap<string, SettleEffect>,
  attempt: number,
): void {
  for (const { requestId: request, written, onEnded } of batch) {
    const effect = effects.get(request)
    if (effect === undefined || effect === 'locked') continue
    const isReplay = onEnded !== undefined
    // On a second attempt, and in a replay, a duplicate means that an earlier attempt did commit.
    const isRepetition = effect === 'duplicate' && (attempt > 0 || written !== undefined || isReplay)
    // The bulk leases of a dead process are gone. The late settlement that follows reports what happened to the
    // charge.
    const isExpected = isRepetition || (effect === 'fenced' && isReplay)
    if (!isExpected) log?.warn({ request, effect }, messages[effect])
  }
}

const messages: Readonly<Record<Exclude<SettleEffect, 'locked'>, string>> = {
  duplicate: 'the request was settled before; nothing more is charged',
  clamped: 'the cost exceeds the hold; the excess is written off',
  late: 'the lease was gone; charged to the free balance',
  written_off:
    "written off: the balance, the daily cap or the key's limit has no room, or the request was sent again with its Idempotency-Key",
  no_account: 'the customer has no account; nothing is charged',
  fenced: 'the lease was gone or the request was sent again with its Idempotency-Key; it is settled without the lease',
  archived:
    'the usage rows of that month are archived, so the request may have been settled before; nothing is charged',
}
