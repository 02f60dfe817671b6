import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { Journal } from '../journal/journal.ts'
import type { PendingSettlement } from './pending-settlement.ts'
import { createJournalRefusalLog } from './settlement-log.ts'

export interface SettlementJournalDeps {
  readonly journal: Journal | null
  readonly scheduler: Pick<Scheduler, 'monotonicMs'>
  readonly log: Pick<Log, 'error'> | undefined
  /** The record is not in the journal: only a commit makes the charge safe. */
  readonly onRefused: () => void
}

/** The records of uncommitted settlements in the journal of this node. Does nothing when there is no journal. */
export interface SettlementJournal {
  /** Answers the caller of the settlement when its record is in the journal. The record before it is forgotten then. */
  write(record: string, entry: PendingSettlement): void
  /** The settlement is committed or given up. */
  forget(entry: PendingSettlement): void
  /**
   * Writes the settlements again that have records in damaged segments, or of an earlier process. An answer that still
   * waits for its record is not safe yet.
   */
  writeAgain(entries: Iterable<PendingSettlement>, recordOf: (entry: PendingSettlement) => string): void
}

export function createSettlementJournal({ journal, scheduler, log, onRefused }: SettlementJournalDeps) {
  const logRefusal = createJournalRefusalLog(scheduler, log)
  const records: SettlementJournal = {
    write(record, entry) {
      journal?.write(record, (failure, written) => {
        if (written === undefined) {
          logRefusal(failure)
          onRefused()
          return
        }
        const superseded = entry.isListed ? entry.written : written
        if (superseded !== undefined) journal.forget(superseded)
        if (entry.isListed) entry.written = written
        entry.answer()
      })
    },
    forget({ written }) {
      if (written !== undefined) journal?.forget(written)
    },
    writeAgain(entries, recordOf) {
      for (const entry of entries) {
        const isSafe = entry.written !== undefined && journal?.isIntact(entry.written)
        if (!isSafe && !entry.isAwaited) records.write(recordOf(entry), entry)
      }
    },
  }
  return records
}
