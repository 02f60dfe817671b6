import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from './database-fault.ts'
import { type FileLock, waitForFileLock } from './file-lock.ts'
import { giveToSameOwner } from './file-owner.ts'

export interface DatabaseLog {
  info(message: string): void
  warn(message: string): void
}

/** Locked while a process creates, starts or stops the cluster of a data directory. */
export const startLockPath = (dataDir: string) => join(dataDir, 'postgres.start.lock')

/**
 * A start or stop usually takes less time than this. When it takes longer, the log says what this process waits for.
 */
const LOG_WAIT_AFTER_MS = 3_000

/**
 * Waits until no other process starts or stops the cluster, then keeps them from it. Throws an Error for the operator.
 */
export async function lockStart(dataDir: string, log: DatabaseLog): Promise<FileLock> {
  const path = startLockPath(dataDir)
  const logWait = () =>
    log.info(`Waiting for another process, which is starting or stopping the PostgreSQL of ${dataDir}`)
  const timer = setTimeout(logWait, LOG_WAIT_AFTER_MS)
  try {
    const isNew = !existsSync(path)
    // Long enough for a crash recovery that another process has started.
    const lock = await waitForFileLock(path, 'exclusive', 360_000)
    try {
      if (isNew) giveToSameOwner(path)
    } catch (error) {
      lock.release()
      throw error
    }
    return lock
  } catch (error) {
    // EACCES comes from our check that the lock is writable, ERR_SQLITE_ERROR from the attempt to take it.
    if (!['ERR_SQLITE_ERROR', 'EACCES'].includes(String(codeOf(error)))) throw error
    const { uid } = statSync(dataDir)
    throw new Error(
      `Cannot lock ${path}. The data directory belongs to user ${uid}: run this as that user or as root, and keep the directory on a file system that supports locks.`,
    )
  } finally {
    clearTimeout(timer)
  }
}
