import type { Scheduler } from '../../runtime/scheduler.ts'
import { BatchQueue, type BatchQueueOptions, lingerFor } from '../batch-queue.ts'
import type { PendingSettlement } from './pending-settlement.ts'
import { createTextJoiner, type JoinTexts } from './text-arena.ts'

/** With a journal no caller waits for the commit, so batches wait to fill up. Balances are at most this late. */
export const SETTLE_LINGER_MS = 50
/** The longest wait of charges of bulk leases, under load. */
const BULK_LINGER_MAX_MS = 500

export interface SettlementLanesOptions
  extends Pick<BatchQueueOptions<PendingSettlement>, 'isWanted' | 'onTransientError' | 'onRejected'> {
  readonly scheduler: Scheduler
  /** As in BatchQueueOptions. `join` is the one of the lane, since the lanes send at the same time. */
  send(batch: readonly PendingSettlement[], attempt: number, join: JoinTexts): Promise<void>
  /** Whether callers wait for commits. */
  readonly isAwaited: boolean
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

  constructor({ isAwaited, ...options }: SettlementLanesOptions) {
    const laneOf = (more: Pick<BatchQueueOptions<PendingSettlement>, 'lingerMs' | 'groupOf'>) => {
      const join = createTextJoiner()
      return new Lane({ ...options, ...more, send: (batch, attempt) => options.send(batch, attempt, join) })
    }
    this.#strict = laneOf(isAwaited ? {} : { lingerMs: () => SETTLE_LINGER_MS })
    this.#bulk = laneOf({
      groupOf: ({ customerId }) => customerId,
      lingerMs: ({ busyMs }) => (isAwaited ? 0 : lingerFor(busyMs, SETTLE_LINGER_MS, BULK_LINGER_MAX_MS)),
    })
  }

  /** Whether charges of this customer are not committed yet. */
  has(customerId: string): boolean {
    return this.#strict.has(customerId) || this.#bulk.has(customerId)
  }

  push(entry: PendingSettlement): void {
    this.#laneOf(entry).push(entry)
  }

  /** Call it once for each push, before the lease of the entry changes. */
  remove(entry: PendingSettlement): void {
    this.#laneOf(entry).remove(entry)
  }

  /** Resolves when every settlement that is queued now, or every one of this customer, is committed or given up. */
  async flush(customerId?: string): Promise<void> {
    const lanes = [this.#strict, this.#bulk].filter(lane => customerId === undefined || lane.has(customerId))
    await Promise.all(lanes.map(lane => lane.flush()))
  }

  stop(): void {
    this.#strict.stop()
    this.#bulk.stop()
  }

  #laneOf({ leaseId, requestId }: PendingSettlement): Lane {
    return leaseId === requestId ? this.#strict : this.#bulk
  }
}

class Lane {
  readonly #queue: BatchQueue<PendingSettlement>
  readonly #countByCustomer = new Map<string, number>()

  constructor(options: BatchQueueOptions<PendingSettlement>) {
    this.#queue = new BatchQueue(options)
  }

  has(customerId: string): boolean {
    return this.#countByCustomer.has(customerId)
  }

  push(entry: PendingSettlement): void {
    this.#countByCustomer.set(entry.customerId, (this.#countByCustomer.get(entry.customerId) ?? 0) + 1)
    this.#queue.push(entry)
  }

  remove({ customerId }: PendingSettlement): void {
    const left = this.#countByCustomer.get(customerId)! - 1
    if (left > 0) this.#countByCustomer.set(customerId, left)
    else this.#countByCustomer.delete(customerId)
  }

  flush(): Promise<void> {
    return this.#queue.flush()
  }

  stop(): void {
    this.#queue.stop()
  }
}
