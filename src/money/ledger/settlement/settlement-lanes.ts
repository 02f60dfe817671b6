import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { BatchQueue, type BatchQueueOptions, lingerFor, logLocked } from '../batch-queue.ts'
import type { PendingSettlement } from './pending-settlement.ts'
import { createTextJoiner, type JoinTexts } from './text-arena.ts'

/** With a journal no caller waits for the commit, so batches wait to fill up. Balances are at most this late. */
export const SETTLE_LINGER_MS = 50
/** The longest wait of charges of bulk leases, under load. */
const BULK_LINGER_MAX_MS = 500

export interface SettlementLanesOptions extends Pick<BatchQueueOptions<PendingSettlement>, 'isWanted' | 'onRejected'> {
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'> | undefined
  /** As in BatchQueueOptions. `join` is the one of the lane, since the lanes send at the same time. */
  send(
    batch: readonly PendingSettlement[],
    attempt: number,
    skipsLocked: boolean,
    join: JoinTexts,
  ): Promise<readonly PendingSettlement[]>
  /** Whether callers wait for commits. */
  readonly isAwaited: boolean
  /** Whether a bulk lease of the customer counts charges as not committed. */
  hasUncommitted(customerId: string): boolean
}

/**
 * Sends settlements in two lanes. A strict lease holds money of its customer until it is settled, so it waits at most
 * SETTLE_LINGER_MS. Charges of bulk leases hold nothing that another request needs. Under load they wait longer,
 * because PostgreSQL writes as many rows for one charge of a customer as for ten: with 1,000 customers, a batch of
 * 256 costs 60 µs per charge, and one of 4,096 costs 33 µs.
 */
export class SettlementLanes {
  readonly #strict: Lane
  readonly #bulk: Lane
  readonly #hasUncommitted: (customerId: string) => boolean

  constructor({ isAwaited, hasUncommitted, log, ...options }: SettlementLanesOptions) {
    const laneOf = (more: Pick<BatchQueueOptions<PendingSettlement>, 'lingerMs' | 'groupOf'>) => {
      const join = createTextJoiner()
      return new Lane({
        ...options,
        ...more,
        send: (batch, attempt, skipsLocked) => options.send(batch, attempt, skipsLocked, join),
        onTransientError: (batch, error) =>
          log?.warn({ err: error, settlements: batch.length }, 'settlements could not be committed; trying again'),
        onLocked: entries => logLocked(log, entries, 'settlements'),
      })
    }
    this.#hasUncommitted = hasUncommitted
    this.#strict = laneOf(isAwaited ? {} : { lingerMs: () => SETTLE_LINGER_MS })
    this.#bulk = laneOf({
      groupOf: ({ customerId }) => customerId,
      lingerMs: ({ busyMs }) => (isAwaited ? 0 : lingerFor(busyMs, SETTLE_LINGER_MS, BULK_LINGER_MAX_MS)),
    })
  }

  /** Whether charges of this customer are not committed yet. */
  has(customerId: string): boolean {
    return this.#strict.has(customerId) || this.#isInBulk(customerId)
  }

  push(entry: PendingSettlement): void {
    this.#laneOf(entry).push(entry)
  }

  /** Call it once for each push, before the lease of the entry changes. */
  remove(entry: PendingSettlement): void {
    this.#laneOf(entry).remove(entry)
  }

  /**
   * Resolves when every settlement that is queued now, or every one of this customer, is committed or given up. For a
   * customer it does not wait for rows that other sessions have locked.
   */
  async flush(customerId?: string): Promise<void> {
    if (customerId === undefined) {
      await Promise.all([this.#strict.drain(), this.#bulk.drain()])
      return
    }
    const flushes: Promise<void>[] = []
    if (this.#strict.has(customerId)) flushes.push(this.#strict.flush())
    if (this.#isInBulk(customerId)) flushes.push(this.#bulk.flush())
    await Promise.all(flushes)
  }

  stop(): void {
    this.#strict.stop()
    this.#bulk.stop()
  }

  #isInBulk(customerId: string): boolean {
    return this.#hasUncommitted(customerId) || this.#bulk.has(customerId)
  }

  #laneOf({ leaseId, requestId }: PendingSettlement): Lane {
    return leaseId === requestId ? this.#strict : this.#bulk
  }
}

class Lane {
  readonly #queue: BatchQueue<PendingSettlement>
  /** Only settlements that no bulk lease counts: counting one costs as much as four look-ups among all customers. */
  readonly #countByCustomer = new Map<string, number>()

  constructor(options: BatchQueueOptions<PendingSettlement>) {
    this.#queue = new BatchQueue(options)
  }

  has(customerId: string): boolean {
    return this.#countByCustomer.has(customerId)
  }

  push(entry: PendingSettlement): void {
    const { customerId, lease } = entry
    if (lease === undefined) this.#countByCustomer.set(customerId, (this.#countByCustomer.get(customerId) ?? 0) + 1)
    this.#queue.push(entry)
  }

  remove({ customerId, lease }: PendingSettlement): void {
    if (lease !== undefined) return
    const left = (this.#countByCustomer.get(customerId) ?? 0) - 1
    if (left > 0) this.#countByCustomer.set(customerId, left)
    else this.#countByCustomer.delete(customerId)
  }

  flush(): Promise<void> {
    return this.#queue.flush()
  }

  drain(): Promise<void> {
    return this.#queue.drain()
  }

  stop(): void {
    this.#queue.stop()
  }
}
