import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A lock on a file, held by this process until it is released or the process dies in any way. */
export interface FileLock {
  release(): void
}

/**
 * Takes a lock on `path` without waiting; a missing file is created empty, readable by its owner alone. Many
 * holders may share the lock or one may hold it exclusively, within one process as well as between processes.
 * Returns undefined when the lock is taken. Throws the operating system's error when the file cannot be
 * opened.
 *
 * Node has no flock, and a lock file that holds a process id needs guesses about which process is dead.
 * SQLite is part of Node and takes real advisory locks that the kernel drops when a process ends. Locking
 * writes nothing to disk, so it also works on a full disk: a command can still report the full disk, and a
 * server can still stop its PostgreSQL.
 */
export function tryFileLock(path: string, mode: 'shared' | 'exclusive'): FileLock | undefined {
  // On a read-only file, BEGIN EXCLUSIVE succeeds but takes only a shared lock.
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

/** Like tryFileLock, but waits until the lock is free. Throws an error for the operator after `timeoutMs`. */
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
        `Another process has held ${path} for ${Math.round(timeoutMs / 1000)} s. Stop that process, then try again.`,
      )
    await sleep(20)
  }
}

/**
 * Creates a missing file, readable by its owner alone: any user that can read the file can lock it and so keep
 * the gateway from starting. SQLite would create it readable by all.
 */
function createForOwner(path: string): void {
  if (existsSync(path)) return
  try {
    closeSync(openSync(path, 'a', 0o600))
  } catch {
    // SQLite fails in the same way, and callers handle its errors.
  }
}

const SQLITE_BUSY = 5

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY
}
