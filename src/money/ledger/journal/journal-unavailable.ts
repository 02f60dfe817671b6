/**
 * The record was not journaled: the limit is reached, the disk refused, or the journal is closed. Later
 * writes may succeed again. What the disk may have kept of the record is cut off at once. The refused record can be
 * recovered only if the process dies before it is cut off, or if the disk refuses the cut too.
 */
export class JournalUnavailable extends Error {
  readonly reason: 'full' | 'disk' | 'closed'

  constructor(reason: JournalUnavailable['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'JournalUnavailable'
    this.reason = reason
  }
}

/** Explains an error of the disk. `what` is a participle: the journal could not be opened, written or synced. */
export function diskFailure(what: string, error: unknown): JournalUnavailable {
  const detail = error instanceof Error ? error.message : String(error)
  const message = `The journal could not be ${what} (${detail}). Check the free space and the rights of its directory.`
  return new JournalUnavailable('disk', message, { cause: error })
}
