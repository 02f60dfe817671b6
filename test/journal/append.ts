import type { Journal, JournalEntry } from '../../src/ledger/journal/journal.ts'

/** `journal.write` for a test that waits; rejects with what refused the record. */
export function append(journal: Journal, payload: string | Uint8Array): Promise<JournalEntry> {
  return new Promise((resolve, reject) => {
    journal.write(payload, (failure, entry) => (entry ? resolve(entry) : reject(failure)))
  })
}
