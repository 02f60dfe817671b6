import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A lock on a file, held by this process until it is released or the process dies, however it dies. */
export interface FileLock {
  release(): void
}

/**
 * Takes a lock on `path` (created empty when absent, for its owner alone) without waiting. Any number of holders may share it, one alone may
 * hold it exclusively, within one process as well as between processes. Returns undefined when it is taken.
 * Throws the operating system's error when the file cannot be opened.
 *
 * Node has no flock, and a lock file with a process id in it needs guesses about who is dead. SQLite, which Node
 * carries, takes real advisory locks that the kernel drops when a process ends. The file stays empty, and nothing is written beside it:
 * on a full disk a command has to get as far as to say so, and a server to stop its PostgreSQL.
 */
export function tryFileLock(path: string, mode: 'shared' | 'exclusive'): FileLock | undefined {
  // On a file that may only be read SQLite takes a shared lock and says it is exclusive.
  if (mode === 'exclusive' && existsSync(path)) accessSync(path, constants.W_OK)
  createForOwner(path)
  const file = new DatabaseSync(path, { timeout: 0 })
  try {
    file.exec(
      mode === 'exclusive' ? 'PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE' : 'BEGIN; SELECT 1 FROM sqlite_schema',
    )
  } catch (error) {
    file.close()
    if (isBusy(error)) return undefined
    throw error
  }
  return { release: () => file.isOpen && file.close() }
}

/** Like tryFileLock, but waits until the lock is free; throws `lock_timeout` in words after `timeoutMs`. */
export async function waitForFileLock(
  path: string,
  mode: 'shared' | 'exclusive',
  timeoutMs: number,
): Promise<FileLock> {
  const deadlineMs = performance.now() + timeoutMs
  for (;;) {
    const lock = tryFileLock(path, mode)
    if (lock) return lock
    if (performance.now() > deadlineMs)
      throw new Error(
        `Another process has held ${path} for ${Math.round(timeoutMs / 1000)} s. Stop it, then try again.`,
      )
    await sleep(20)
  }
}

/** Whoever may read a file may lock it: any user of the machine could keep the gateway from starting. SQLite lets all of them read. */
function createForOwner(path: string): void {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, 'a', 0o600))
  } catch {
    // SQLite fails in the same way, and its errors are known.
  }
}

const SQLITE_BUSY = 5

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY
}
