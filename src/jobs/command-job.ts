import type { Sql } from '../base/db/pool.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Clock } from '../base/runtime/scheduler.ts'

/** Why a command has not done its work. */
export interface CommandFailure {
  readonly reason: string
  /** Whether another process does the same work at the moment. That is no failure of a schedule. */
  readonly isBusy: boolean
}

/** What a job needs that runs commands of this program. */
export interface CommandJobDeps {
  readonly sql: Sql
  /** Runs a command. Resolves with null when it succeeded. */
  readonly run: (words: readonly string[], signal: AbortSignal) => Promise<CommandFailure | null>
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
}
