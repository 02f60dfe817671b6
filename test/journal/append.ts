import type { Journal, JournalEntry } from '../../src/money/ledger/journal/journal.ts'

/** `journal.write` as a promise. Rejects with the failure when the record is refused. */
export function append(journal: Journal, payload: string | Uint8Array): Promise<JournalEntry> {
  return new Promise((resolve, reject) => {
    journal.write(payload, (failure, entry) => (entry ? resolve(entry) : reject(failure)))
  })
}
