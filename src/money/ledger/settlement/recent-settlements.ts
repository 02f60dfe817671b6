import { HOUR_MS } from '../../../base/domain/durations.ts'
import type { LedgerStore, SettleEffect } from '../ledger-store.ts'

type Settler = Pick<LedgerStore, 'settle'>

/** Records are kept for one to two periods, ms, and until their requests were looked up. */
const PERIOD_MS = 10_000
/** Beyond this, a period ends early. At 700 bytes per record, 10 s of 2,000 requests per second fit. */
const PERIOD_BYTES_MAX = 16 << 20
/**
 * After this time without a settlement, all records are forgotten, ms. An operator may archive usage rows, and a record
 * without its row would be charged again.
 */
const FORGOTTEN_MS = HOUR_MS

/**
 * How many of the batches before the last look-up are looked up again. Commits have an order: if the last one exists,
 * so do all before it. Two batches may be committed at the same time, and their answers arrive in any order.
 */
const BATCHES_AGAIN = 3
/**
 * The most batches that are looked up. While records are settled again, which may take longer than the time to the next failover, nothing
 * is looked up.
 */
const BATCHES_MAX = 10_000

export interface SettledRequest {
  readonly customerId: string
  readonly requestId: string
}

interface Period {
  bytes: Buffer
  used: number
}

/**
 * Settles, and keeps the records of the last 10 to 20 s of committed settlements as bytes. PostgreSQL can lose them
 * after their commit: a standby that takes over lacks the last transactions of an asynchronous primary. Then
 * `settleAgain` restores the charges. Records leave for that, and return when PostgreSQL has them again, so that they
 * also outlive the next failover.
 */
export class RecentSettlements implements Settler {
  readonly #store: Settler
  readonly #monotonicMs: () => number
  #current: Period = { bytes: Buffer.alloc(0), used: 0 }
  #previous: Period = { bytes: Buffer.alloc(0), used: 0 }
  #sinceMs = Number.NEGATIVE_INFINITY
  #keptAtMs = Number.NEGATIVE_INFINITY
  #foundAtMs = Number.NEGATIVE_INFINITY
  /** The last request of each batch that was not looked up yet, and of the last ones before it, oldest first. */
  #latest: SettledRequest[] = []

  constructor(store: Settler, monotonicMs: () => number) {
    this.#store = store
    this.#monotonicMs = monotonicMs
  }

  /** Settles the records and keeps those that PostgreSQL has now. */
  async settle(nodeShard: number, settlements: Buffer, skipsLocked?: boolean): Promise<Map<string, SettleEffect>> {
    const effects = await this.#store.settle(nodeShard, settlements, skipsLocked)
    if (effects.size === 0) {
      this.#keep(settlements)
      this.#noteBatch(settlements.subarray(settlements.lastIndexOf(separatorByte) + 1))
      return effects
    }
    let last: Buffer | undefined
    let lastDuplicate: Buffer | undefined
    for (const record of recordsOf(settlements)) {
      const effect = effects.get(fieldsOf(record).requestId)
      if (uncommitted.has(effect)) continue
      this.#keep(record)
      // The row of a duplicate is older than this batch, and says nothing about it.
      if (effect === 'duplicate') lastDuplicate = record
      else last = record
    }
    const witness = last ?? lastDuplicate
    if (witness !== undefined) this.#noteBatch(witness)
    return effects
  }

  /** Requests that have a usage row, unless PostgreSQL lost transactions. */
  get latest(): readonly SettledRequest[] {
    if (this.#latest.length > 0 && this.#monotonicMs() - this.#keptAtMs > FORGOTTEN_MS) this.#forgetAll()
    return [...this.#latest]
  }

  /**
   * These requests, as returned by `latest`, had usage rows at some time after `askedAtMs`. The answer may be late, and
   * PostgreSQL may have lost transactions since.
   */
  found(requests: readonly SettledRequest[], askedAtMs: number): void {
    this.#foundAtMs = askedAtMs
    const from = this.#latest.indexOf(requests.at(-BATCHES_AGAIN) as SettledRequest)
    if (from > 0) this.#latest = this.#latest.slice(from)
  }

  /** Passes the kept records to `settle`, in the order of their commits. Resolves with their number. */
  async settleAgain(settle: (records: readonly Buffer[]) => Promise<void>): Promise<number> {
    const records = [this.#previous, this.#current].flatMap(({ bytes, used }) =>
      Array.from(recordsOf(bytes.subarray(0, used)), record => Buffer.from(record)),
    )
    this.#forgetAll()
    await settle(records)
    return records.length
  }

  #forgetAll(): void {
    this.#latest = []
    this.#current.used = 0
    this.#previous.used = 0
  }

  /** Copies one or more records. */
  #keep(records: Buffer): void {
    const nowMs = this.#monotonicMs()
    // The records of the period before are forgotten only if their requests were still there a period later. Time alone
    // proves nothing: PostgreSQL may have been away since the last look-up.
    const isOver = this.#foundAtMs - this.#sinceMs > PERIOD_MS
    if (isOver || this.#current.used + records.length + 1 > PERIOD_BYTES_MAX) {
      ;[this.#current, this.#previous] = [this.#previous, this.#current]
      this.#current.used = 0
      this.#sinceMs = nowMs
    }
    const period = this.#current
    const end = period.used + records.length + 1
    if (end > period.bytes.length) {
      const bytes = Buffer.allocUnsafeSlow(end * 2)
      period.bytes.copy(bytes, 0, 0, period.used)
      period.bytes = bytes
    }
    records.copy(period.bytes, period.used)
    period.bytes[end - 1] = separatorByte
    period.used = end
    this.#keptAtMs = nowMs
  }

  /** @param record of a batch that was committed: PostgreSQL loses all of a batch, or nothing */
  #noteBatch(record: Buffer): void {
    this.#latest.push(fieldsOf(record))
    if (this.#latest.length <= BATCHES_MAX) return
    // Drops every second batch, so that old batches stay represented: a failover may have lost any part of them.
    this.#latest = this.#latest.filter((_, at) => at % 2 === 0 || at >= this.#latest.length - BATCHES_AGAIN)
  }
}

/**
 * Without a usage row, or with one in the archive. A duplicate has a row: an earlier call committed it and lost its
 * answer, or an earlier process did that left the record in its journal. It is of the same answer.
 */
const uncommitted: ReadonlySet<SettleEffect | undefined> = new Set(['fenced', 'no_account', 'locked', 'archived'])

/** RECORD_SEPARATOR of settlement.ts. */
const separatorByte = 0x1e
const UUID_CHARS = 36

/** The last record may end with a separator. */
function* recordsOf(bytes: Buffer): Generator<Buffer, void> {
  for (let start = 0; start < bytes.length; ) {
    const separator = bytes.indexOf(separatorByte, start)
    const end = separator < 0 ? bytes.length : separator
    yield bytes.subarray(start, end)
    start = end + 1
  }
}

/** The ids are the second and the third field of a record: see settlement.ts. */
function fieldsOf(record: Buffer): SettledRequest {
  const start = record.indexOf(',') + 1
  const requestId = record.toString('latin1', start, start + UUID_CHARS)
  const customerId = record.toString('latin1', start + UUID_CHARS + 1, start + 2 * UUID_CHARS + 1)
  return { customerId, requestId }
}
