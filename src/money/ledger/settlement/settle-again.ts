import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { Journal, JournalEntry } from '../journal/journal.ts'
import type { RecoveredRecord } from './recovered-settlements.ts'
import { createJournalRefusalLog } from './settlement-log.ts'

export interface SettleAgainDeps {
  readonly journal: Journal | null
  readonly scheduler: Pick<Scheduler, 'soon' | 'monotonicMs'>
  /** See Ledger.replay. */
  readonly replay: (records: readonly RecoveredRecord[]) => Promise<unknown>
  readonly log: Pick<Log, 'error'> | undefined
}

/** Settles charges again that were committed and that PostgreSQL has lost. */
export interface SettleAgain {
  /** Resolves when the charges are committed or given up. Call it again only after that. */
  run(payloads: readonly Buffer[]): Promise<void>
  /** Charges of the current run that are not in the settlement queue yet. */
  readonly size: number
}

/** New charges pass between two batches. */
const BATCH = 512

export function createSettleAgain({ journal, scheduler, replay, log }: SettleAgainDeps): SettleAgain {
  const logRefusal = createJournalRefusalLog(scheduler, log)
  let size = 0

  /** The journal forgot these records after their commit. This process may end before PostgreSQL has them again. */
  function journaled(payload: Buffer): RecoveredRecord {
    let entry: JournalEntry | undefined
    let isForgotten = false
    journal?.write(payload, (failure, written) => {
      if (written === undefined) logRefusal(failure)
      else if (isForgotten) journal.forget(written)
      entry = written
    })
    return {
      payload,
      forget() {
        isForgotten = true
        if (entry !== undefined) journal?.forget(entry)
      },
    }
  }

  async function settleAll(payloads: readonly Buffer[]): Promise<void> {
    const records: RecoveredRecord[] = []
    size = payloads.length
    for (const batch of batchesOf(payloads)) {
      records.push(...batch.map(journaled))
      await new Promise<void>(resolve => scheduler.soon(resolve))
    }
    for (const batch of batchesOf(records)) {
      size -= batch.length
      await replay(batch)
    }
  }

  return {
    get size() {
      return size
    },
    run: settleAll,
  }
}

function* batchesOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < items.length; from += BATCH) yield items.slice(from, from + BATCH)
}
