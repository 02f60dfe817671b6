import type { Nanos } from '../../../base/domain/money.ts'
import type { LinkedItem } from '../../../base/runtime/collections.ts'
import type { JournalEntry } from '../journal/journal.ts'
import type { BulkLease } from '../leases/bulk-lease.ts'
import type { Settlement } from './settlement.ts'

/**
 * A settlement that is not committed yet. Kept small: thousands wait at a time, and everything it references
 * lives until the commit.
 *
 * It is awaited until its caller is answered: the record is in the journal, or committed, or void. Only an awaited
 * settlement may be voided. All others are of answers that their clients have, so they are charged however long
 * PostgreSQL takes: those in the journal, and those that are settled again, which no caller awaits.
 */
export class PendingSettlement implements LinkedItem<PendingSettlement> {
  readonly requestId: string
  readonly customerId: string
  /** Replaced when the lease is gone. */
  leaseId: string
  /** Replaced when the settlement is voided, or when its lease is gone. */
  record: KeptText
  /** The bulk lease that counts the charge as not committed. Undefined when none does. */
  lease: BulkLease | undefined
  readonly #chargedNanos: Nanos
  readonly sinceMs: number
  /** Its record in this node's journal. */
  written: JournalEntry | undefined = undefined
  /** Called when a settlement that is made again is committed or given up. Undefined for a first settlement. */
  onEnded: (() => void) | undefined = undefined
  older: PendingSettlement | undefined = undefined
  newer: PendingSettlement | undefined = undefined
  isListed = false
  #caller: SettlementCaller | undefined = undefined

  constructor(
    { requestId, customerId, leaseId }: Settlement,
    record: KeptText,
    lease: BulkLease | undefined,
    chargedNanos: Nanos,
    sinceMs: number,
  ) {
    this.requestId = requestId
    this.customerId = customerId
    this.leaseId = leaseId
    this.record = record
    this.lease = lease
    this.#chargedNanos = chargedNanos
    this.sinceMs = sinceMs
  }

  /** `answer` will answer this caller. */
  awaitFor(caller: SettlementCaller): void {
    this.#caller = caller
  }

  get isAwaited(): boolean {
    return this.#caller !== undefined
  }

  /** Informs its bulk lease that the charge is committed, or never will be. */
  leaveLease(): void {
    this.lease?.settle(this.#chargedNanos)
    this.lease = undefined
  }

  /** Resolves the caller, or rejects it when there is an error. Only the first call counts. */
  answer(error?: unknown): void {
    const caller = this.#caller
    // The caller must not be kept in memory until the commit.
    this.#caller = undefined
    if (error === undefined) caller?.resolve()
    else caller?.reject(error)
  }
}

/** The request that waits for its charge to be safe. */
export interface SettlementCaller {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Keeps texts as bytes outside the JavaScript heap while they wait.
 *
 * A settlement waits 50 to 500 ms for its commit. On a busy gateway that is long enough for an object to be promoted
 * to the old generation of the heap, where it soon becomes garbage. Kept as objects, settlements produced 2 kB of
 * such garbage per request and caused nearly all full collections.
 */
export interface TextArena {
  keep(text: string): KeptText
  textOf(text: KeptText): string
  /** Releases the memory of a text. Dropping it twice does nothing. */
  drop(text: KeptText): void
}

/** The position of a kept text, in UTF-8. Only this module reads it. */
export interface KeptText {
  readonly slab: Slab
  /** Offsets in the bytes of the slab. */
  readonly start: number
  readonly end: number
  isKept: boolean
}

interface Slab {
  readonly bytes: Buffer
  /** Texts in the slab that are not dropped. */
  live: number
}

/** 256 KiB. A slab is free again when its last text is dropped. */
const SLAB_BYTES = 262_144
/** How many empty slabs are kept. More are in use only while settlements pile up. */
const SPARE_SLABS_MAX = 24

export function createTextArena(slabBytes = SLAB_BYTES): TextArena {
  const spare: Slab[] = []
  let current = newSlab(slabBytes)
  let used = 0

  return {
    keep(text) {
      // A UTF-16 unit becomes three bytes at most. Counting the bytes first would walk the text twice.
      const bytesMax = text.length * 3
      if (used + bytesMax > current.bytes.length) {
        current = bytesMax <= slabBytes ? (spare.pop() ?? newSlab(slabBytes)) : newSlab(bytesMax)
        used = 0
      }
      const start = used
      used += current.bytes.write(text, start)
      current.live++
      return { slab: current, start, end: used, isKept: true }
    },
    textOf: ({ slab, start, end }) => slab.bytes.toString('utf8', start, end),
    drop(text) {
      if (!text.isKept) return
      text.isKept = false
      const { slab } = text
      slab.live--
      if (slab.live > 0) return
      if (slab === current) used = 0
      else if (slab.bytes.length === slabBytes && spare.length < SPARE_SLABS_MAX) spare.push(slab)
    },
  }
}

function newSlab(bytes: number): Slab {
  return { bytes: Buffer.allocUnsafeSlow(bytes), live: 0 }
}

/** Joins one or more texts with an ASCII separator. The bytes are valid until the next call. */
export type JoinTexts = (texts: readonly KeptText[], separator: string) => Buffer

/** Call it once for each place that may wait for its bytes to be sent while another one joins texts. */
export function createTextJoiner(): JoinTexts {
  // Reused: a new buffer per batch would reach the old generation, and only a full collection frees that.
  let buffer = Buffer.alloc(0)
  return (texts, separator) => {
    const separatorByte = separator.charCodeAt(0)
    let length = texts.length - 1
    for (const { start, end } of texts) length += end - start
    if (length > buffer.length) buffer = Buffer.allocUnsafeSlow(length * 2)
    let at = 0
    for (const { slab, start, end } of texts) {
      if (at > 0) buffer[at++] = separatorByte
      at += slab.bytes.copy(buffer, at, start, end)
    }
    return buffer.subarray(0, length)
  }
}
