import type { Sql } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'

/** What a job needs that runs commands of this program. */
export interface CommandJobDeps {
  readonly sql: Sql
  /** Runs a command, and resolves with why it failed; null if it did not. */
  readonly run: (words: readonly string[], signal: AbortSignal) => Promise<string | null>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}
